"""Verified copies of source files, one at a time.

The content of a source file may be at two locations: the path that the event recorded, and the change
manager's copy ``<cmroot>/<name>_<checksum>`` (ReplChangeManager.getFileInfo; reference: hive-replication.md
§1.6). The recorded path comes first, unless this machine cannot compute the checksum. In that case the change
manager comes first: a file of that name *is* the recorded content, while the source path may hold a successor
of the same size. A copy tries both in turn, five attempts in all (Hive's MAX_IO_RETRY; reference:
hive-replication.md §3.8).

Promises:

* The target file has the recorded content or, without a verifiable checksum, the content of a source file
  that did not change between the start and the end of the copy.
* It appears completely or not at all. Copying again changes and writes nothing. It never deletes an existing
  target first.
* A crash leaves at most hidden files, which the next copy into the directory removes.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from handlers.files.copying.origins import CrcTypes, FileOrigin, choose_error, list_origins
from handlers.files.copying.transfer import (
    STEP_BYTES_MAX,
    Cancellation,
    ContentDiffers,
    Moved,
    Reserve,
    SourceFailed,
    Transfer,
    mark_source_errors,
    mark_target_errors,
)
from handlers.files.directories import require_directory, require_reachable
from handlers.files.filesystems import SweptDirectories, sweep
from handlers.files.paths import AllowedRoots, Location, parse_location, to_target_subdir
from state.errors import FileLost, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.events import SourceFile
    from handlers.files.copying.checksums import Checksum, Digest
    from handlers.files.filesystems import FileState, FileSystem, FileSystems, ReadStream, WriteStream


ATTEMPTS_MAX: Final = 5  # Hive's MAX_IO_RETRY


@dataclass(frozen=True, slots=True)
class CopyTask:
    """Copy ``source`` to ``target_uri``, the complete name of the target file."""

    source: SourceFile
    target_uri: str
    above_uri: str | None = None
    """A directory of the target that must be there; None for no check. Copies create other missing
    directories.
    """


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy.
    ``size_bytes`` is the size of the file, even if it existed already (``skipped``).
    """

    size_bytes: int
    from_change_manager: bool
    skipped: bool
    seconds: float
    mismatches: int = 0
    """Attempts whose bytes differed from the recorded ones or changed meanwhile."""


def build_copy_task(
    source: SourceFile, target_root: str, *, table_root: str | None = None, base_suffix: str = ""
) -> CopyTask:
    """Return the task that copies ``source`` below ``target_root``,
    the location of a table or partition on the target.

    The file keeps its name and its ACID directory, without the visibility suffix; a base gets
    ``base_suffix``. ``table_root`` is the location that the metastore created for the table: copies need the
    directory above it. The table's own directory may be missing, because Hive removes it with another table
    that has the same one. Raises UnsafePath.
    """
    directory = parse_location(target_root)
    subdir = to_target_subdir(source.subdir, base_suffix)
    if subdir:
        directory = directory.join(subdir)
    target = directory.child(parse_location(source.uri).name)
    if table_root is None:
        return CopyTask(source, str(target), None)
    place, table = parse_location(target_root), parse_location(table_root)  # a partition may be elsewhere
    return CopyTask(source, str(target), str((table if table.contains(place) else place).parent))


def _allow() -> None:
    """Allow every copy."""


class Copier:
    """Copies files between the file systems of ``file_systems``; thread-safe.

    With ``sweeps`` False the unfinished files of other processes stay; use it if several processes write into
    one directory.
    """

    def __init__(
        self,
        file_systems: FileSystems,
        allowed: AllowedRoots,
        *,
        attempts_max: int = ATTEMPTS_MAX,
        sweeps: bool = True,
        guard: Callable[[], None] = _allow,
    ) -> None:
        """Calls ``guard`` before a copy starts and right before it gets its final name; an error of
        ``guard`` prevents that.
        """
        assert attempts_max >= 1, attempts_max
        file_systems.trust(allowed.roots)
        self._file_systems = file_systems
        self._allowed = allowed
        self._attempts_max = attempts_max
        self._swept = SweptDirectories() if sweeps else None
        self._crc_types = CrcTypes()
        self._guard = guard

    def copy(
        self,
        task: CopyTask,
        *,
        cancelled: Cancellation | None = None,
        reserve: Reserve | None = None,
        moved: Moved | None = None,
    ) -> Copied:
        """Copy the recorded content of ``task.source`` to the target file, durably; raises the errors of the
        two steps.
        """
        copied = self.publish(task, cancelled=cancelled, reserve=reserve, moved=moved)
        self.settle(parse_location(task.target_uri).parent)
        return copied

    def settle(self, directory: Location) -> None:
        """Make all copies published in a directory durable; raise FilesUnavailable.

        Needed even after a skipped copy: a kill may have stopped the process that made it before this step.
        """
        with mark_target_errors():
            self._file_systems.of(directory).settle(directory)

    def publish(
        self,
        task: CopyTask,
        *,
        cancelled: Cancellation | None = None,
        reserve: Reserve | None = None,
        moved: Moved | None = None,
        step_bytes: Callable[[], int] = lambda: STEP_BYTES_MAX,
    ) -> Copied:
        """Copy the recorded content of ``task.source`` to the target file, which is durable after ``settle``.

        Raises FileLost if neither the source nor the change manager has the content; Refused without the
        right to read both, or to write the target; UnsafePath for names outside the allowed directories;
        FilesUnavailable for transient failures and once ``cancelled`` is set.
        """
        started = time.monotonic()
        target = parse_location(task.target_uri)
        origins = list_origins(task.source, self._allowed)
        self._guard()
        if task.above_uri is not None:
            require_directory(self._file_systems, parse_location(task.above_uri))
        if self._swept is not None and self._swept.add(target.parent):
            sweep(self._file_systems, target.parent)
        transfer = Transfer(cancelled, reserve, moved, step_bytes)
        if (size_bytes := self._find_recorded_content(origins[0].checksum, target, transfer)) is not None:
            return Copied(
                size_bytes, from_change_manager=False, skipped=True, seconds=time.monotonic() - started
            )
        if self._is_encrypted(origins):
            origins = list_origins(task.source, self._allowed, is_encrypted=True)
        failures: list[Exception] = []
        for attempt in range(self._attempts_max):
            origin = origins[attempt % len(origins)]
            try:
                size_bytes, skipped = self._attempt(origin, origins, target, transfer)
            except (ContentDiffers, SourceFailed) as failure:
                failures.append(failure)
                continue
            mismatches = sum(isinstance(failure, ContentDiffers) for failure in failures)
            seconds = time.monotonic() - started
            return Copied(size_bytes, origin.from_change_manager, skipped, seconds, mismatches)
        error = choose_error(task.source, origins, failures)
        if isinstance(error, FileLost):
            self._require_reachable(origins)
        raise error

    @property
    def allowed(self) -> AllowedRoots:
        """The directories that source files may be read from."""
        return self._allowed

    def _is_encrypted(self, origins: list[FileOrigin]) -> bool:
        """Return whether the recorded checksum is that of encrypted bytes; raise FilesUnavailable if that is
        unknown.
        """
        for origin in origins:
            if origin.checksum is not None:
                with suppress(NotFound, Refused):
                    return self._file_systems.of(origin.location).is_encrypted(origin.location)
        return False

    def _require_reachable(self, origins: list[FileOrigin]) -> None:
        """Raise FilesUnavailable if files may seem lost because of a missing mount."""
        for origin in origins:
            if origin.from_change_manager:
                require_directory(self._file_systems, origin.location.parent)
            else:
                require_reachable(self._file_systems, origin.location, self._allowed)

    def _attempt(
        self, origin: FileOrigin, origins: list[FileOrigin], target: Location, transfer: Transfer
    ) -> tuple[int, bool]:
        """Copy the content from one location; return its size, and whether the target had it already."""
        files = self._file_systems.of(origin.location)
        with mark_source_errors():
            before = files.stat(origin.location)
        size_bytes = before.size_bytes
        with transfer.reserve_bytes(size_bytes):
            if origin.checksum is None and self._has_same_bytes(origin, before, target, transfer):
                self._require_unchanged(origin, origins, before)
                return size_bytes, True
            with mark_source_errors():
                reader = files.open(origin.location)
            targets = self._file_systems.of(target)
            with reader, mark_target_errors(), targets.create(target, size_bytes) as writer:
                self._fill(writer, reader, origin, origins, before, transfer)
                self._guard()
                writer.publish()
        return size_bytes, False

    def _fill(
        self,
        writer: WriteStream,
        reader: ReadStream,
        origin: FileOrigin,
        origins: list[FileOrigin],
        before: FileState,
        transfer: Transfer,
    ) -> None:
        """Copy all bytes to ``writer``, and check that they are the required content."""
        files = self._file_systems.of(origin.location)
        if origin.checksum is None:
            self._move(files, reader, writer, before, transfer)
            self._require_unchanged(origin, origins, before)
        else:
            digest = self._crc_types.new_digest(origin.location, origin.checksum)
            self._move(files, reader, writer, before, transfer, digest)
            self._require_recorded(origin, origin.checksum, digest, transfer)

    def _move(
        self,
        files: FileSystem,
        reader: ReadStream,
        writer: WriteStream,
        before: FileState,
        transfer: Transfer,
        digest: Digest | None = None,
    ) -> None:
        """Copy all bytes and add them to ``digest``; without a digest, copy inside the kernel."""
        moved = 0
        if digest is None:
            moved = transfer.copy_in_kernel(files, reader, writer, before.size_bytes)
        if moved == 0:
            for chunk in transfer.read_chunks(reader, mark_source_errors):
                if digest is not None:
                    digest.update(chunk)
                writer.write(chunk)
                moved += len(chunk)
        if moved != before.size_bytes:
            raise ContentDiffers

    def _require_recorded(
        self, origin: FileOrigin, checksum: Checksum, copied: Digest, transfer: Transfer
    ) -> None:
        """Check that the digest of the copied bytes proves them to be the recorded content."""

        def read_again(digest: Digest) -> None:
            with mark_source_errors():
                reader = self._file_systems.of(origin.location).open(origin.location)
            with reader:
                for chunk in transfer.read_chunks(reader, mark_source_errors):
                    digest.update(chunk)

        if not self._crc_types.is_recorded(origin.location, checksum, copied, read_again):
            raise ContentDiffers

    def _require_unchanged(self, origin: FileOrigin, origins: list[FileOrigin], before: FileState) -> None:
        """Check, for content without a verifiable checksum, that the file did not change during the copy.

        For the source path, check also that the change manager has not received the recorded file meanwhile,
        which happens just before another file replaces it.
        """
        with mark_source_errors():
            if self._file_systems.of(origin.location).stat(origin.location) != before:
                raise ContentDiffers
        recycled = [other for other in origins if other.from_change_manager]
        if origin.from_change_manager or not recycled:
            return
        try:
            self._file_systems.of(recycled[0].location).stat(recycled[0].location)
        except TidelineError:
            return
        raise ContentDiffers

    def _find_recorded_content(
        self, checksum: Checksum | None, target: Location, transfer: Transfer
    ) -> int | None:
        """Return the size of the target if it already has the recorded checksum, which makes the source
        unnecessary.
        """
        if checksum is None:
            return None
        targets = self._file_systems.of(target)
        try:
            size_bytes = targets.stat(target).size_bytes
        except NotFound:
            return None
        with targets.open(target) as reader:
            return size_bytes if transfer.has_checksum(reader, checksum) else None

    def _has_same_bytes(
        self, origin: FileOrigin, before: FileState, target: Location, transfer: Transfer
    ) -> bool:
        """Return whether the target has the same bytes as ``origin``, for which there is no checksum."""
        targets = self._file_systems.of(target)
        try:
            if targets.stat(target).size_bytes != before.size_bytes:
                return False
        except NotFound:
            return False
        with targets.open(target) as reader:
            present = transfer.compute_md5(reader)
        with mark_source_errors():
            reader = self._file_systems.of(origin.location).open(origin.location)
        with reader:
            return present == transfer.compute_md5(reader, mark_source_errors)
