"""A source warehouse, its change manager and a target, as directories of a test."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask, build_copy_task
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems


DELTA = "delta_0000005_0000005_0000"


@dataclass(frozen=True)
class Warehouse:
    """Two tables: one to copy from, one to copy to."""

    root: Path

    def __post_init__(self) -> None:
        for directory in (self.source.parent, self.cm_root, self.target.parent):
            directory.mkdir(parents=True, exist_ok=True)

    @property
    def source(self) -> Path:
        return self.root / "source" / "t"

    @property
    def cm_root(self) -> Path:
        return self.root / "cmroot"

    @property
    def target(self) -> Path:
        return self.root / "target" / "t"

    def wrote(
        self,
        content: bytes = b"rows",
        *,
        name: str = "bucket_00000_0",
        subdir: str = DELTA,
        checksum: bool = True,
    ) -> SourceFile:
        """Put a file at the source and return its entry in an event."""
        path = self.source / subdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        if not checksum:
            return SourceFile(f"file:{path}", subdir=subdir)
        return SourceFile(f"file:{path}", md5(content), f"file:{self.cm_root}", subdir)

    def recycled(self, source: SourceFile, content: bytes) -> Path:
        """Put the copy that the change manager would keep of ``source``."""
        self.cm_root.mkdir(parents=True, exist_ok=True)
        kept = self.cm_root / f"{source.uri.rpartition('/')[2]}_{source.checksum}"
        kept.write_bytes(content)
        return kept

    def task(self, source: SourceFile) -> CopyTask:
        return build_copy_task(source, f"file:{self.target}")

    def allowed(self) -> AllowedRoots:
        return AllowedRoots.of([f"file:{self.source.parent}", f"file:{self.cm_root}"])

    def copier(self, file_systems: FileSystems | None = None) -> Copier:
        return Copier(file_systems or open_file_systems({"file": {"fsync": False}}), self.allowed())

    def target_files(self) -> dict[str, bytes]:
        """Return all files below the target, including hidden ones, by relative path."""
        found = sorted(path for path in self.target.rglob("*") if path.is_file())
        return {str(path.relative_to(self.target)): path.read_bytes() for path in found}


def path_of(source: SourceFile) -> Path:
    return Path(source.uri.removeprefix("file:"))


def md5(content: bytes) -> str:
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
