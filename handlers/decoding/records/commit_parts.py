"""Collects the write events of one commit, and writes its records once all of them have arrived.

Every record contains the number of parts, so the first one cannot be written before the last write event is
known. A transaction may have a hundred thousand of them, with a table and a partition object each. Parts
beyond ``MEMORY_BYTES`` therefore wait in a temporary file; only a short entry for each part stays in memory,
and records are read from the file one at a time. If they would fill the volume, ``receive`` raises
LimitExceeded, and the relay publishes the commit without its write events.

The parts are sorted, because the metastore returns write events in any order, and a partly written event must
be completed with exactly the same parts: first the logged write events by write id, database, table and
partition, then those of partitions listed (see ``add_listed``), at last the commit.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, overload

from handlers.decoding.header import WRITE_KIND
from handlers.decoding.messages import DEFAULT_LIMITS, JsonObject, Limits, unpack
from handlers.decoding.records.record_writer import Piece, Record, describe
from state.errors import BadInput, FilesUnavailable, LimitExceeded


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from handlers.decoding.records.record_writer import RecordWriter
    from handlers.structs.notifications import WriteEventInfo


MEMORY_BYTES: Final = 1024 * 1024
FREE_SHARE_MIN: Final = 0.05
"""Share of the volume that write events leave free, for the positions of every projection."""
_CHECK_BYTES: Final = 16 * 1024 * 1024
"""Bytes to write between two looks at the volume."""
_FILE_SEPARATOR: Final = re.compile(r"\s*\]\s*")
_BEAT_EVERY: Final = 1_000


class _Entry(NamedTuple):
    """One part of the commit. Entries have the same order as the parts."""

    listed: bool
    write_id: int
    db: str
    table: str
    partition: str
    sequence: int
    offset: int
    size: int


def build_write_message(txn_id: object, event: WriteEventInfo) -> JsonObject:
    """Return a write event under the field names of ``ACID_WRITE_EVENT`` (reference:
    hive-replication.md §1.2).
    """
    return {
        "txnid": txn_id,
        "writeId": event.writeId,
        "database": event.database,
        "table": event.table,
        "partition": event.partition or "",
        "tableObjJson": event.tableObj,
        "partitionObjJson": event.partitionObj,
        "files": [entry for entry in _FILE_SEPARATOR.split(event.files or "") if entry],
    }


class CommitParts:
    """The write events of one commit; used by one thread at a time. The temporary file disappears with the
    last reference.

    ``receive`` and ``restart`` make it a ``Receiver`` of a metastore's answer.
    """

    def __init__(
        self,
        writer: RecordWriter,
        *,
        limits: Limits = DEFAULT_LIMITS,
        directory: Path | None = None,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        """``directory`` is for the temporary file of a large transaction; by default, it is the system's
        temporary directory.
        """
        self._writer = writer
        self._limits = limits
        self._beat = beat
        self._spool = _Spool(directory)
        self._entries: list[_Entry] = []
        self._names: dict[str, str] = {}
        self._end = 0
        self._mark = (0, 0)
        self._sample = ""
        self._owners: dict[tuple[str, str], str] = {}
        self._failure: BadInput | None = None
        self._message: JsonObject = {}
        try:
            self._message = unpack(writer.event.message, writer.event.messageFormat, limits)
        except BadInput as error:
            self._failure = error

    def keep(self) -> None:
        """Keep the parts so far, even if ``restart`` is called later."""
        self._mark = (len(self._entries), self._end)

    def clear(self) -> None:
        """Forget everything that has arrived."""
        self._mark = (0, 0)
        self.restart()

    def restart(self) -> None:
        """Forget the parts since ``keep``."""
        count, self._end = self._mark
        del self._entries[count:]
        self._spool.truncate(self._end)

    def receive(self, element: WriteEventInfo) -> None:
        """Add a logged write event.
        One that cannot be written becomes a part that reports it, and names its table.
        """
        message = build_write_message(self._message.get("txnid"), element)
        if not self._sample and message["files"]:
            self._sample = message["files"][0]
        if element.tableObj:
            self._owners.setdefault((element.database, element.table), element.tableObj)
        self._add(element, message, listed=False)

    def add_listed(self, element: WriteEventInfo, *, incomplete: str | None = None) -> None:
        """Add files that the relay listed because the source reports no write event for them; their part is
        marked with ``"listed": true``.

        ``incomplete`` says why the write may have other files; replicas then load the table.
        """
        message = build_write_message(self._message.get("txnid"), element) | {"listed": True}
        if incomplete is not None:
            message["incomplete"] = incomplete
        self._add(element, message, listed=True)

    @property
    def sample(self) -> str:
        """The first file entry received; "" if there was none."""
        return self._sample

    def owner(self, db: str, table: str) -> str | None:
        """Return the encoded object of a table, from the first of its write events that has one."""
        return self._owners.get((db, table))

    def tables(self) -> set[tuple[str, str, int]]:
        """Return database, table and write id of the logged write events."""
        return {(entry.db, entry.table, entry.write_id) for entry in self._entries if not entry.listed}

    def partitions(self, db: str, table: str) -> set[str]:
        """Return the partitions of a table that have a write event."""
        return {entry.partition for entry in self._entries if (entry.db, entry.table) == (db, table)}

    def __len__(self) -> int:
        """Return the number of parts without the commit itself."""
        return len(self._entries)

    def records(self, extra: JsonObject | None = None) -> Sequence[Record]:
        """Return all records; ``extra`` are fields added to the commit's message.

        Returns a small transaction as a list. For a large one, each access reads the temporary file. Raises
        FilesUnavailable.
        """
        whole = describe(self._writer.event)
        if self._failure is not None:
            return [self._writer.record(self._writer.problem(whole, self._failure), 0, 1)]
        message = self._message | {"enriched": True} | (extra or {})
        (last,) = self._writer.bodies(whole._replace(message=message))
        lazy = _SpooledRecords(self._writer, self._spool, sorted(self._entries), last)
        if lazy.size_bytes > MEMORY_BYTES:
            return lazy
        return list(lazy)

    def _add(self, element: WriteEventInfo, message: JsonObject, *, listed: bool) -> None:
        piece = Piece(WRITE_KIND, None, element.database, element.table, message)
        try:
            bodies = self._writer.bodies(piece)
        except BadInput as error:
            bodies = [self._writer.problem(piece, error)]
        for body in bodies:
            self._append(element, body, listed=listed)

    def _append(self, element: WriteEventInfo, body: bytes, *, listed: bool) -> None:
        names = self._names
        db, table = (names.setdefault(name, name) for name in (element.database, element.table))
        count = len(self._entries)
        self._entries.append(
            _Entry(listed, element.writeId, db, table, element.partition or "", count, self._end, len(body))
        )
        self._spool.write(self._end, body, leaves_space=not listed)
        self._end += len(body)
        if count % _BEAT_EVERY == 0:
            self._beat()


class _Spool:
    """The temporary file: up to ``MEMORY_BYTES`` in memory, a larger one on disk without a name."""

    def __init__(self, directory: Path | None) -> None:
        where = str(directory) if directory is not None else None
        # SIM115: closed when collected
        self._file = tempfile.SpooledTemporaryFile(max_size=MEMORY_BYTES, dir=where)  # noqa: SIM115
        self._directory = where or tempfile.gettempdir()
        self._checked = MEMORY_BYTES
        """Length up to which there is space."""

    def __del__(self) -> None:
        self._file.close()

    def write(self, offset: int, body: bytes, *, leaves_space: bool) -> None:
        """Write at ``offset``; raise LimitExceeded if the volume would become too full.

        Unless it ``leaves_space``, it does not check the volume: listed files are few, and the relay leaves
        them out only if it cannot list them.
        """
        try:
            if leaves_space and offset + len(body) > self._checked:
                self._require_space(offset + len(body))
            self._file.seek(offset)
            self._file.write(body)
        except OSError as error:
            raise _unavailable(error) from error

    def truncate(self, size: int) -> None:
        """Discard everything after ``size``."""
        try:
            self._file.truncate(size)
        except OSError as error:
            raise _unavailable(error) from error
        self._checked = min(self._checked, max(size, MEMORY_BYTES))

    def _require_space(self, size: int) -> None:
        volume = os.statvfs(self._directory)
        spare_bytes = volume.f_bavail * volume.f_frsize - _CHECK_BYTES
        if spare_bytes < volume.f_blocks * volume.f_frsize * FREE_SHARE_MIN:
            raise LimitExceeded(
                "the write events of a transaction would fill the volume",
                hint="Free space on the volume of state.dir.",
                directory=self._directory,
                size_bytes=size,
                spare_bytes=spare_bytes,
            )
        self._checked = size + _CHECK_BYTES

    def read(self, offset: int, size: int) -> bytes:
        try:
            self._file.seek(offset)
            body: bytes = self._file.read(size)
        except OSError as error:
            raise _unavailable(error) from error
        return body


class _SpooledRecords(Sequence[Record]):
    """The records of one commit, read from a temporary file at each access."""

    def __init__(self, writer: RecordWriter, spool: _Spool, entries: list[_Entry], last: bytes) -> None:
        self._writer = writer
        self._spool = spool
        self._parts = [(entry.offset, entry.size) for entry in entries]
        self._last = last
        self.size_bytes = sum(size for _, size in self._parts) + len(last)

    def __len__(self) -> int:
        return len(self._parts) + 1

    @overload
    def __getitem__(self, index: int) -> Record: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Record]: ...

    def __getitem__(self, index: int | slice) -> Record | Sequence[Record]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(len(self)))]
        part = range(len(self))[index]
        body = self._last if part == len(self._parts) else self._spool.read(*self._parts[part])
        return self._writer.record(body, part, len(self))


def _unavailable(error: OSError) -> FilesUnavailable:
    return FilesUnavailable(
        "the temporary file of a large transaction cannot be written or read", reason=str(error)
    )
