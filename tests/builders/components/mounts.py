"""A directory on a small file system of its own, which a test fills, makes read-only, and unmounts while
processes use it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


class MountedDirectory:
    """A directory that is mounted from a file system in memory, so that it can be unmounted without losing
    its content."""

    def __init__(self, point: Path, backing: Path) -> None:
        self._point = point
        self._backing = backing

    def fill(self) -> None:
        """Take all free space."""
        with suppress(OSError), (self._backing / ".filler").open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(65536))

    def free(self) -> None:
        """Give it back."""
        (self._backing / ".filler").unlink()

    def make_read_only(self) -> None:
        """Refuse changes."""
        _mount("-o", "remount,ro,bind", str(self._point))

    def make_writable(self) -> None:
        """Accept changes again."""
        _mount("-o", "remount,rw,bind", str(self._point))

    def unmount(self) -> None:
        """Leave the empty mount point, in which nobody can create anything; open files stay usable."""
        subprocess.run(["umount", "--lazy", str(self._point)], check=True)

    def mount(self) -> None:
        """Bring the content back."""
        _mount("--bind", str(self._backing), str(self._point))


@contextmanager
def mounted(point: Path, backing: Path, size_mb: int = 64) -> Iterator[MountedDirectory]:
    """Mount a file system at ``point`` during the block; skip the test if this user may not mount."""
    if os.geteuid() != 0:
        pytest.skip("mounting file systems needs root")
    for directory in (point, backing):
        directory.mkdir(parents=True)
    try:
        _mount("-t", "tmpfs", "-o", f"size={size_mb}m", "tideline-test", str(backing))
        _set_immutable(point, "+i")  # as docs/guides/external-tables.md advises
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no file system can be mounted here: {error}")
    made = MountedDirectory(point, backing)
    try:
        made.mount()
        yield made
    finally:
        for directory in (point, backing):
            subprocess.run(["umount", "--lazy", str(directory)], check=False, stderr=subprocess.DEVNULL)
        _set_immutable(point, "-i")


def _mount(*options: str) -> None:
    subprocess.run(["mount", *options], check=True)


def _set_immutable(directory: Path, change: str) -> None:
    subprocess.run(["chattr", change, str(directory)], check=True)
