"""Spark's event logs: the physical plan of every query, and the statement where the application has one.

Logs are files of JSON lines: one file or, rolling, a directory of them for each application; ``.inprogress`` while it runs; plain or
compressed by zstd. They are read on from where they were left, whole lines only. What says ``description`` is a statement only from
Spark's SQL shells and servers (from a program it is ``collect at job.py:4``), while the plan holds the expressions always; both are
mined, so a key may count twice, and its user and day once.

Adaptive execution tells plans again while it goes. The first tells all: a later one is read only where the first is not in the log.
"""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from state.errors import BadInput, LimitExceeded, NotFound, Unsupported
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.directory import UNREADABLE_ERRORS, Directory, DirectoryPosition, FileEntry
from streaming.mining.sources.source import DeadInput, QueryBatch
from streaming.mining.tokens import tokenize


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from handlers.files.paths import Location


BATCH_CHARS: Final = 16 * 1024 * 1024
BATCH_QUERIES: Final = 1_000
_RUNNING: Final = ".inprogress"
_ZSTD: Final = (".zstd", ".zst")
_UNREAD: Final = (".lz4", ".lzf", ".snappy")
"""Spark's own framings of these, which nothing outside the JVM reads."""
_NO_LOG: Final = re.compile(r"(?:.*/)?appstatus_[^/]*|.*\.compact(?:\.\w+)?|.*\.crc")
_WANTED: Final = re.compile(
    rb"SparkListener(?:SQLExecutionStart|SQLAdaptiveExecutionUpdate|ApplicationStart)|ThriftServerOperationStart"
)
_STATEMENT: Final = frozenset({"with", "select", "insert", "create", "from", "merge", "("})
"""How a statement begins; a program's description begins otherwise."""


@dataclass(slots=True)
class SparkEventLogSource:
    """Event logs below ``spark.eventLog.dir``."""

    name: str
    directory: Directory
    line_bytes: int = 32 * 1024 * 1024
    """A longer event is dead: the plan of an enormous query."""

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        """Yield the queries of lines that are new."""
        files_read = DirectoryPosition.of(position, self.name)
        files = {
            _stable(name): (location, size)
            for name, location, size in self.directory.files()
            if not _NO_LOG.fullmatch(name)
        }
        files_read.forget_all_but(set(files))
        for name, (location, size) in files.items():
            entry = files_read.entry(name)
            if entry.size_bytes == size:
                continue
            if not entry.note:
                entry.note = _user_of_siblings(files_read, name)
            yield from self._of_file(name, location, entry, files_read)
            entry.size_bytes = size
        yield QueryBatch((), files_read.position())

    def _of_file(
        self, name: str, location: Location, entry: FileEntry, files_read: DirectoryPosition
    ) -> Iterator[QueryBatch]:
        """Yield what is new in a file; the entry moves with it."""
        queries: list[QueryText] = []
        dead: list[DeadInput] = []
        chars = 0
        try:
            for line, end in self._lines(name, location, entry.done_bytes):
                if line is None:
                    dead.append(
                        DeadInput.of(name, LimitExceeded("an event is too long", limit_bytes=self.line_bytes))
                    )
                elif _WANTED.search(line, 0, 200):
                    found = self._of_event(line, name, location, entry)
                    chars += sum(len(each.text) for each in found if isinstance(each, QueryText))
                    queries.extend(each for each in found if isinstance(each, QueryText))
                    dead.extend(each for each in found if isinstance(each, DeadInput))
                entry.done_bytes = end
                if chars >= BATCH_CHARS or len(queries) >= BATCH_QUERIES:
                    yield QueryBatch(tuple(queries), files_read.position(), tuple(dead))
                    queries, dead, chars = [], [], 0
        except NotFound:  # finished meanwhile: it has another name then, and is read on the next time
            pass
        except (*UNREADABLE_ERRORS, Unsupported) as error:
            dead.append(DeadInput.of(name, error))
        yield QueryBatch(tuple(queries), files_read.position(), tuple(dead))

    def _lines(self, name: str, location: Location, start: int) -> Iterator[tuple[bytes | None, int]]:
        """Yield whole lines behind ``start`` and where each ends; None for one that is too long."""
        held, reached, is_skipping = b"", 0, False
        for chunk in self._text(name, location):
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

    def _text(self, name: str, location: Location) -> Iterator[bytes]:
        """Yield the decompressed text; a stream that breaks off ends there, because somebody may still write it."""
        chunks = self.directory.chunks(location)
        if name.endswith(_UNREAD):
            raise Unsupported(
                "an event log's compression cannot be read: set spark.eventLog.compression.codec=zstd",
                path=name,
            )
        return _decompressed(chunks) if name.endswith(_ZSTD) else chunks

    def _of_event(
        self, line: bytes, name: str, location: Location, entry: FileEntry
    ) -> list[QueryText | DeadInput]:
        try:
            event: Any = orjson.loads(line)
            kind = event["Event"].rpartition(".")[2]
            if kind == "SparkListenerApplicationStart":
                entry.note = str(event.get("User", ""))
                return []
            return list(self._texts(kind, event, name, location, entry))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            return [DeadInput.of(name, BadInput("an event of the log cannot be read", reason=str(error)))]

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


def _stable(name: str) -> str:
    """The name that a log has when its application has ended."""
    return name.removesuffix(_RUNNING)


def _user_of_siblings(files_read: DirectoryPosition, name: str) -> str:
    """Return the application's user for a later file of a rolling log: only the first one tells."""
    directory, _, _ = name.rpartition("/")
    if "eventlog_v2_" not in directory:
        return ""
    siblings: Iterable[FileEntry] = (
        e for known, e in files_read.entries.items() if known.startswith(directory + "/")
    )
    return next((each.note for each in siblings if each.note), "")


class _Chunks(io.RawIOBase):
    """Pieces of bytes as a file, for a library that wants one."""

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


def _decompressed(chunks: Iterator[bytes]) -> Iterator[bytes]:
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
