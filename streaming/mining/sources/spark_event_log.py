"""Reads Spark's event logs: the physical plan of every query, and its statement if there is one.

Logs are files of JSON lines, plain or compressed with zstd: one file for each application, or a directory of
rolling files. Their names end in ``.inprogress`` while the application runs. Each pass continues where the
last one stopped, and reads only complete lines.

The field ``description`` contains a statement only if the query comes from one of Spark's SQL shells or
servers; for a program it is ``collect at job.py:4``. The plan always contains the expressions. Mining reads
both, so a key may count twice, while its user and day count once.

Adaptive execution writes updated plans while a query runs. The first plan is complete; mining reads a later
one only if the log does not contain the first.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import orjson

from handlers.files.paths import Location
from handlers.structs.json_limits import check_size
from state.errors import BadInput, LimitExceeded, NotFound, Unsupported
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.directory import UNREADABLE_ERRORS, Directory, DirectoryPosition, FileEntry
from streaming.mining.sources.source import DeadInput, QueryBatch
from streaming.mining.tokens import tokenize


BATCH_CHARS: Final = 16 * 1024 * 1024
BATCH_QUERIES: Final = 1_000
EXPANSION_MAX: Final = 200
UNPACKED_BYTES_MIN: Final = 64 * 1024 * 1024
"""A log is read up to this length, and up to ``EXPANSION_MAX`` times that of its file if that is more. Logs
of Spark grow by a factor of 10 to 50."""
_RUNNING: Final = ".inprogress"
_ZSTD: Final = (".zstd", ".zst")
_UNREAD: Final = (".lz4", ".lzf", ".snappy")
"""Codecs with framings specific to Spark, which only the JVM can read."""
_NO_LOG: Final = re.compile(r"(?:.*/)?appstatus_[^/]*|.*\.compact(?:\.\w+)?|.*\.crc")
_WANTED: Final = re.compile(
    rb"SparkListener(?:SQLExecutionStart|SQLAdaptiveExecutionUpdate|ApplicationStart)|ThriftServerOperationStart"
)
_STATEMENT: Final = frozenset({"with", "select", "insert", "create", "from", "merge", "("})
"""The first words of statements; descriptions from programs begin with other words."""


@dataclass(slots=True)
class SparkEventLogSource:
    """Event logs below ``spark.eventLog.dir``."""

    name: str
    directory: Directory
    line_bytes: int = 32 * 1024 * 1024
    """A longer event, the plan of an extremely large query, is a dead input."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the queries of new lines."""
        files_read = DirectoryPosition.from_json(position, self.name)
        files = {
            _final_name(name): (location, size)
            for name, location, size in self.directory.files()
            if not _NO_LOG.fullmatch(name)
        }
        files_read.keep_only(set(files))
        for name, (location, size) in files.items():
            entry = files_read.entry(name)
            if entry.size_bytes == size:
                continue
            if not entry.note:
                entry.note = _user_of_siblings(files_read, name)
            yield from self._read_file(name, location, size, entry, files_read)
            entry.size_bytes = size
        yield QueryBatch((), files_read.to_json())

    def _read_file(
        self, name: str, location: Location, size: int, entry: FileEntry, files_read: DirectoryPosition
    ) -> Iterator[QueryBatch]:
        """Yield the new queries of a file, and advance its entry."""
        queries: list[QueryText] = []
        dead: list[DeadInput] = []
        chars = 0
        try:
            for line, end in self._lines(name, location, size, entry.done_bytes):
                if line is None:
                    too_long = LimitExceeded("an event is too long", limit_bytes=self.line_bytes)
                    dead.append(DeadInput.of(f"{name}, byte {entry.done_bytes}", too_long))
                elif _WANTED.search(line, 0, 200):
                    query = self._read_event(line, name, location, entry)
                    chars += sum(len(each.text) for each in query if isinstance(each, QueryText))
                    queries.extend(each for each in query if isinstance(each, QueryText))
                    dead.extend(each for each in query if isinstance(each, DeadInput))
                entry.done_bytes = end
                if chars >= BATCH_CHARS or len(queries) >= BATCH_QUERIES:
                    yield QueryBatch(tuple(queries), files_read.to_json(), tuple(dead))
                    queries, dead, chars = [], [], 0
        except NotFound:  # finished in the meantime and renamed: the next run continues with it
            pass
        except (*UNREADABLE_ERRORS, Unsupported, LimitExceeded) as error:
            dead.append(DeadInput.of(name, error))
        yield QueryBatch(tuple(queries), files_read.to_json(), tuple(dead))

    def _lines(
        self, name: str, location: Location, size: int, start: int
    ) -> Iterator[tuple[bytes | None, int]]:
        """Yield whole lines after ``start`` and the end of each; None in place of a line that is too long."""
        held, reached, is_skipping = b"", 0, False
        for chunk in self._text(name, location, size):
            reached += len(chunk)
            if reached <= start:
                continue
            fresh = chunk if reached - len(chunk) >= start else chunk[start - reached :]
            *lines, held = (held + fresh).split(b"\n")
            end = reached - len(held) - sum(len(line) + 1 for line in lines)
            for line in lines:
                end += len(line) + 1
                is_long, is_skipping = is_skipping or len(line) > self.line_bytes, False
                yield None if is_long else line, end
            if len(held) > self.line_bytes:
                held, is_skipping = b"", True

    def _text(self, name: str, location: Location, size: int) -> Iterator[bytes]:
        """Yield the decompressed text. It ends early for an incomplete stream, which the application may
        still be writing.
        """
        chunks = self.directory.chunks(location)
        if name.endswith(_UNREAD):
            raise Unsupported(
                "the compression of an event log is not supported",
                path=name,
                hint="Set spark.eventLog.compression.codec=zstd.",
            )
        return _limit(_decompress(chunks), name, size) if name.endswith(_ZSTD) else chunks

    def _read_event(
        self, line: bytes, name: str, location: Location, entry: FileEntry
    ) -> list[QueryText | DeadInput]:
        try:
            check_size(line)
            event: Any = orjson.loads(line)
            kind = event["Event"].rpartition(".")[2]
            if kind == "SparkListenerApplicationStart":
                entry.note = str(event.get("User", ""))
                return []
            return list(self._texts(kind, event, name, location, entry))
        except LimitExceeded as error:
            return [DeadInput.of(f"{name}, byte {entry.done_bytes}", error)]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            unreadable = BadInput("an event of the log cannot be read", reason=str(error))
            return [DeadInput.of(f"{name}, byte {entry.done_bytes}", unreadable)]

    def _texts(
        self, kind: str, event: dict[str, Any], name: str, location: Location, entry: FileEntry
    ) -> Iterator[QueryText]:
        if kind == "SparkListenerThriftServerOperationStart":
            at_s = int(event["startTime"]) // 1000
            yield QueryText(str(event["statement"]), str(event.get("userName", "")), at_s, self.name, name)
            return
        number = int(event["executionId"]) + 1
        if kind == "SparkListenerSQLAdaptiveExecutionUpdate" and number <= entry.number:
            return
        entry.number = max(entry.number, number)
        at_s = int(event["time"]) // 1000 if "time" in event else self.directory.modified_s(location)
        origin = f"{name}#{number - 1}"
        yield QueryText(str(event["physicalPlanDescription"]), entry.note, at_s, self.name, origin, Form.PLAN)
        description = event.get("description")
        if isinstance(description, str) and _is_statement(description):
            yield QueryText(description, entry.note, at_s, self.name, origin)


def _is_statement(description: str) -> bool:
    first = next(tokenize(description), None)
    return first is not None and first.text.lower() in _STATEMENT


def _final_name(name: str) -> str:
    """Return the name that a log has after its application has ended."""
    return name.removesuffix(_RUNNING)


def _user_of_siblings(files_read: DirectoryPosition, name: str) -> str:
    """Return the application's user for a later file of a rolling log, because only the first file contains
    it.
    """
    directory, _, _ = name.rpartition("/")
    if "eventlog_v2_" not in directory:
        return ""
    siblings: Iterable[FileEntry] = (
        e for known, e in files_read.entries.items() if known.startswith(directory + "/")
    )
    return next((each.note for each in siblings if each.note), "")


class _Chunks(io.RawIOBase):
    """Presents chunks of bytes as a file object, for pyarrow."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        super().__init__()
        self._chunks, self._held = chunks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._held:
            self._held = memoryview(next(self._chunks, b""))
        count = min(len(buffer), len(self._held))
        memoryview(buffer)[:count] = self._held[:count]
        self._held = self._held[count:]
        return count


def _limit(pieces: Iterator[bytes], name: str, size: int) -> Iterator[bytes]:
    """Yield the decompressed ``pieces`` of a file of this size; raise LimitExceeded if far longer."""
    limit, unpacked = max(UNPACKED_BYTES_MIN, EXPANSION_MAX * size), 0
    for piece in pieces:
        unpacked += len(piece)
        if unpacked > limit:
            raise LimitExceeded("an event log is too long after decompression", path=name, limit_bytes=limit)
        yield piece


def _decompress(chunks: Iterator[bytes]) -> Iterator[bytes]:
    import pyarrow as pa

    with pa.CompressedInputStream(pa.PythonFile(_Chunks(chunks), "r"), "zstd") as stream:
        while True:
            try:
                piece = stream.read(1 << 20)
            except OSError:
                return
            if not piece:
                return
            yield piece
