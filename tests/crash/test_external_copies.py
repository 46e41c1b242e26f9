"""The copy of external files is killed between directories, and the next one continues where it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems


pytestmark = pytest.mark.crash

DIRECTORIES = 12


@dataclass
class Trees:
    """A directory of the source, and one above all copies."""

    source: str
    base: str
    state: Path

    def put(self, uri: str, text: str) -> None:
        location, content = parse_location(uri), text.encode()
        files = open_file_systems().of(location)
        with files.create(location, len(content)) as writer:
            writer.write(memoryview(content))
            writer.publish()

    def run(self, failpoint: str = "") -> dict[str, Any] | None:
        """Copy; return the counts, or None if the process was killed."""
        given = {"source": self.source, "base": self.base, "state": str(self.state)}
        done = subprocess.run(
            [sys.executable, "-m", "tests.crash.programs.external_program", json.dumps(given)],
            env={**os.environ, "TIDELINE_FAILPOINT": failpoint},
            stdout=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert done.returncode in ({-9} if failpoint else {0})
        return None if failpoint else json.loads(done.stdout.splitlines()[-1])

    def content(self, root: str) -> dict[str, bytes]:
        """Return the content of all files below a directory, hidden ones included."""
        files, found, waiting = open_file_systems().of(parse_location(root)), {}, [parse_location(root)]
        while waiting:
            directory = waiting.pop()
            for entry in files.list(directory):
                child = directory.child(entry.name)
                if entry.is_directory:
                    waiting.append(child)
                    continue
                buffer = bytearray(entry.size_bytes)
                with files.open(child) as reader:
                    assert reader.readinto(memoryview(buffer)) == entry.size_bytes
                found[str(child)[len(root) :]] = bytes(buffer)
        return found


@pytest.fixture
def trees(tmp_path: Path) -> Trees:
    (tmp_path / "base").mkdir()
    (tmp_path / "state").mkdir()
    return Trees(f"file:{tmp_path}/source", f"file:{tmp_path}/base", tmp_path / "state")


def test_a_copy_that_is_killed_again_and_again_copies_every_file_once(trees: Trees) -> None:
    for number in range(DIRECTORIES):
        for name in "ab":
            trees.put(f"{trees.source}/dt={number:02}/{name}", f"{number}{name}")
    for passes in (2, 3, 4):
        assert trees.run(f"external.after-copies:{passes}") is None
    last = trees.run()
    assert last is not None
    assert (last["files"], last["problems"]) == (2 * DIRECTORIES, 0)
    assert 0 < last["copied"] < 2 * DIRECTORIES
    assert trees.content(f"{trees.base}/t") == trees.content(trees.source)
    assert (trees.run() or {})["copied"] == 0
