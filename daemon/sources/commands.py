"""``tideline files check``: tests reading and writing of a directory in the way that replicas do it.

Use it for clusters on which Tideline was never tested. The directory may be on any file system that
``read_roots`` or a target's warehouse may be on. The check writes into a directory with a hidden name, and
removes it again.
"""

from __future__ import annotations

import os
import secrets
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from daemon.terminal.application import CommandGroup, config_option, echo, json_option, load_config
from handlers.files.filesystems import CHUNK_BYTES, read_chunks
from state.errors import FilesUnavailable, NotFound
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from handlers.files.filesystems import FileSystem
    from handlers.files.paths import Location


@click.group(cls=CommandGroup)
def files() -> None:
    """Check access to file systems."""


@files.command()
@click.argument("uri")
@config_option
@json_option
@click.option("--read-only", is_flag=True, help="Only list the directory; write nothing.")
def check(uri: str, config_path: Path | None, as_json: bool, read_only: bool) -> None:
    """List, write, read, replace and remove files in the directory URI, with the settings of 'files'.

    The files have names that Hive and Spark ignore; the command removes them again. Exits with 1 at the first
    call that fails.
    """
    from handlers.files.paths import parse_location
    from handlers.files.systems.schemes import open_file_systems

    place = parse_location(uri)
    systems = open_file_systems(load_config(config_path).files.all_options(), [place])
    checked = FileCheck(systems.of(place), place)
    checked.read()
    if not read_only:
        checked.write()
    echo({"uri": uri, "steps": checked.steps}, as_json, _to_text)


def _to_text(checked: dict[str, Any]) -> str:
    lines = [f"{step.name:28} {step.seconds:8.3f} s" for step in checked["steps"]]
    return "\n".join([*lines, f"{checked['uri']}: no problems"])


SIZES: Final = (1, 20 * CHUNK_BYTES)
"""Sizes of the files: object stores write large ones differently from small ones."""


@dataclass(frozen=True, slots=True)
class CheckedStep:
    """A call that succeeded, and how long it took."""

    name: str
    seconds: float


@dataclass(slots=True)
class FileCheck:
    """One check of one directory; ``steps`` lists the successful steps so far."""

    files: FileSystem
    directory: Location
    steps: list[CheckedStep] = field(default_factory=list)

    def read(self) -> None:
        """List the directory; raise the error of the file system, such as NotFound."""
        with self._step("list"):
            self.files.list(self.directory)

    def write(self) -> None:
        """Write, read, replace, list and remove files in a new directory below this one.

        Raises the first error, and FilesUnavailable if the file system does not keep the written bytes.
        """
        place = self.directory.child(f"_tideline_check_{secrets.token_hex(8)}")
        try:
            for size_bytes in SIZES:
                self._write_file(place.child(f"f{size_bytes}"), size_bytes)
            with self._step("list"):
                names = {entry.name for entry in self.files.list(place)}
            self._require(
                names >= {f"f{size_bytes}" for size_bytes in SIZES}, "a new file is missing from a listing"
            )
        finally:
            with self._step("remove"):
                self.files.remove_tree(place)
        with self._step("look for a removed file"):
            self._require(self._is_missing(place.child(f"f{SIZES[0]}")), "a removed file is still there")

    def _write_file(self, file: Location, size_bytes: int) -> None:
        for action in ("write", "replace"):
            content = os.urandom(size_bytes)
            with (
                self._step(f"{action} {count_text(size_bytes, 'byte')}"),
                self.files.create(file, size_bytes) as writer,
            ):
                for start in range(0, size_bytes, CHUNK_BYTES):
                    writer.write(memoryview(content)[start : start + CHUNK_BYTES])
                writer.publish()
            with self._step(f"read {count_text(size_bytes, 'byte')}"):
                is_same = b"".join(read_chunks(self.files, file)) == content
                self._require(is_same, "a file does not contain the bytes that were written")
        with self._step("stat"):
            self._require(self.files.stat(file).size_bytes == size_bytes, "a file has another size")

    def _is_missing(self, file: Location) -> bool:
        try:
            self.files.stat(file)
        except NotFound:
            return True
        return False

    def _require(self, holds: bool, problem: str) -> None:  # noqa: FBT001 - private, and reads as a sentence
        if not holds:
            raise FilesUnavailable(problem, path=str(self.directory))

    @contextmanager
    def _step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        yield
        self.steps.append(CheckedStep(name, time.monotonic() - started))
