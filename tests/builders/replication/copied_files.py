"""Files on any file system that a copy job copies while its processes are killed."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from daemon.replica.copy_jobs.runner import SparkJobs
from handlers.events import SourceFile
from handlers.files.copying.copies import Copied, CopyTask
from handlers.files.copying.jobs import Outcome, SizedTask
from handlers.files.filesystems import FileState
from handlers.files.paths import Location, parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import NotFound


FILES = 60
SIZE = 200_000
BYTES_PER_S = 1_000_000
"""A rate at which every kill meets copies that are not finished."""


@dataclass
class CopiedFiles:
    """Files in the directory ``in`` of a source, and the directory ``out`` for their copies, both below the
    URI ``root``."""

    root: str
    options: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Options of file systems."""
    content: dict[str, bytes] = field(default_factory=dict)
    killed: list[int] = field(default_factory=list)
    written: dict[str, FileState] = field(default_factory=dict)
    """The copies at the moment of the kill."""

    def __post_init__(self) -> None:
        self._file_system = open_file_systems(self.options).of(self.target)
        for number in range(FILES):
            self.content[f"f{number}"] = os.urandom(SIZE)
        for name, content in self.content.items():
            self._put(self.source.child(name), content)
        self._put(self.target.child("_here"), b"")  # creates the directory

    @property
    def source(self) -> Location:
        return parse_location(f"{self.root}/in")

    @property
    def target(self) -> Location:
        return parse_location(f"{self.root}/out")

    @property
    def copies(self) -> list[SizedTask]:
        return [self._copy(name) for name in sorted(self.content)]

    def _copy(self, name: str) -> SizedTask:
        checksum = hashlib.md5(self.content[name], usedforsecurity=False).hexdigest()
        source = SourceFile(str(self.source.child(name)), checksum)
        return SizedTask(CopyTask(source, f"{self.target}/t/{name}", str(self.target)), SIZE)

    def _put(self, location: Location, content: bytes) -> None:
        with self._file_system.create(location, len(content)) as writer:
            writer.write(memoryview(content))
            writer.publish()
        self._file_system.settle(location.parent)

    def _names(self, directory: Location) -> list[str]:
        try:
            return [entry.name for entry in self._file_system.list(directory)]
        except NotFound:
            return []

    def published(self) -> dict[str, FileState]:
        """Return the states of the copies."""
        table = self.target.child("t")
        return {name: self._file_system.stat(table.child(name)) for name in self._published_names()}

    def _published_names(self) -> list[str]:
        return [name for name in self._names(self.target.child("t")) if not name.startswith("._")]

    def hidden(self) -> list[str]:
        """Return unfinished files and fences."""
        names = [*self._names(self.target), *self._names(self.target.child("t"))]
        return [name for name in names if name.startswith("._")]

    def read(self, name: str) -> bytes:
        """Return the content of a copy."""
        content = bytearray(SIZE)
        with self._file_system.open(self.target.child("t").child(name)) as reader:
            size = reader.readinto(memoryview(content))
        return bytes(content[:size])

    def check(self, outcomes: Sequence[Outcome]) -> None:
        """Every file is copied, nothing else is left, and what was copied before the kill was not copied
        again."""
        assert all(isinstance(each, Copied) for each in outcomes), outcomes
        assert {name: self.read(name) for name in self.published()} == self.content
        assert self.hidden() == []
        assert self.killed
        assert 0 < len(self.written) < FILES
        assert {name: self.published()[name] for name in self.written} == self.written

    def run(self, jobs: SparkJobs, kill: Callable[[], int]) -> Sequence[Outcome]:
        """Run a job and call ``kill`` once when some files are copied."""
        ended = threading.Event()
        killer = threading.Thread(target=self._kill_at_work, args=(kill, ended))
        killer.start()
        try:
            return jobs.run(self.copies, guard=lambda: None, stopping=threading.Event())
        finally:
            ended.set()
            killer.join()

    def _kill_at_work(self, kill: Callable[[], int], ended: threading.Event) -> None:
        while not ended.wait(0.01):
            # A store shows no unfinished objects.
            if len(self._published_names()) >= 3 and (self.options or len(self.hidden()) > 1):
                self.killed.append(kill())
                self.written = self.published()
                return


def kill_the_driver() -> int:
    """Kill the driver of a copy job that this process has started."""
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ")
            parent = re.search(r"^PPid:\s*(\d+)", (entry.parent / "status").read_text(), re.MULTILINE)
        except OSError:
            continue
        if b"-m daemon copyjob" in command and parent is not None and int(parent[1]) == os.getpid():
            pid = int(entry.parent.name)
            os.kill(pid, signal.SIGKILL)
            return pid
    raise AssertionError("no driver runs")
