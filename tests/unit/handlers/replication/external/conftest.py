"""A source and a target as directories, and copies between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from handlers.files.copying.copies import Copier
from handlers.files.copying.jobs import CopyJobs
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.external.directories import DirectoryCopier, Tree, TreeCounts
from handlers.replication.external.records import CopyRecords
from handlers.replication.external.trees import TreeCopier
from state.store.memory import MemoryStore


@dataclass
class Trees:
    """The directory ``source`` of files, and ``target`` for their copies."""

    root: Path
    pool: CopyPool
    store: MemoryStore = field(default_factory=MemoryStore)
    stopping: threading.Event = field(default_factory=threading.Event)
    held: list[Exception] = field(default_factory=list)
    jobs: CopyJobs | None = None

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def target(self) -> Path:
        return self.root / "target"

    def put(self, path: str, content: str = "x") -> Path:
        file = self.source / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def present(self) -> dict[str, str]:
        """Return the content of all files of the target."""
        found = (path for path in self.target.rglob("*") if path.is_file())
        return {str(path.relative_to(self.target)): path.read_text() for path in found}

    def copy(self, *trees: str, delete: bool = False) -> TreeCounts:
        """Run one cycle over these trees and return its counts."""
        copier = self.copier(delete=delete)
        copier.copy(self.tree(each) for each in trees)
        return copier.counts

    def copier(self, *, delete: bool = False) -> TreeCopier:
        directories = DirectoryCopier(
            open_file_systems({"file": {"fsync": False}}),
            self.pool,
            CopyRecords(self.store),
            base=f"file:{self.target}",
            delete=delete,
            require_held=self._require_held,
        )
        return TreeCopier(directories, workers=3, stopping=self.stopping, jobs=self.jobs)

    def tree(self, path: str) -> Tree:
        return Tree(
            parse_location(f"file:{self.source}/{path}"), parse_location(f"file:{self.target}/{path}")
        )

    def _require_held(self) -> None:
        if self.held:
            raise self.held[0]


@pytest.fixture
def trees(tmp_path: Path) -> Iterator[Trees]:
    files = open_file_systems({"file": {"fsync": False}})
    pool = CopyPool(Copier(files, AllowedRoots.of([f"file:{tmp_path}/source"])), workers=2)
    made = Trees(tmp_path, pool)
    made.source.mkdir()
    made.target.mkdir()
    yield made
    pool.close()
