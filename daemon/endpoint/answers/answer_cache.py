"""Caches whole answers in memory, for clients that repeat their calls.

The request, the rules of the server, and the index's content of the table (the version of its rows, its
number, and its record) determine an answer. The cache reads the content from the snapshot of the request, so
it returns an answer only if that snapshot would give the same bytes. Whether the snapshot is fresh enough is
decided separately, as for any other answer.

An answer whose table has changed is dropped when its call is repeated. The cache has two halves and drops the
older one when the newer one is full, as ``payload_reader.JoinedRows`` does.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

from daemon.endpoint.answers.server_rules import ServerRules
from daemon.endpoint.answers.table_access import TableView
from daemon.endpoint.protocol.wire import Message
from handlers.catalog.index.table_records import TableRecord


BYTES_MAX: Final = 32 * 1024 * 1024
"""Memory of both halves. The cached partitions from which answers are joined take the same amount again."""
LONGEST_BYTES: Final = 4 * 1024 * 1024
"""The cache does not keep longer answers, because they would displace all others."""
_OVERHEAD_BYTES: Final = 500
"""Memory of an entry in addition to its bytes."""

Call = tuple[str, bytes, bool, bool]
"""The name and the arguments of a call, and the facts that determine the rules of its server."""


@dataclass(frozen=True, slots=True)
class TableContent:
    """The version of a table's content in the index, on which answers depend."""

    table: str
    number: int
    version: bytes
    record: TableRecord

    @staticmethod
    def of(view: TableView) -> TableContent | None:
        """Return the content that a view shows; None if its version is unknown."""
        index = view.snapshot.index
        version = index.version(view.name)
        if version is None:
            return None
        return TableContent(view.name, index.table(view.name).number, version, view.record)


@dataclass(frozen=True, slots=True)
class _Entry:
    content: TableContent
    body: bytes
    size: int


class AnswerCache:
    """The answers of one endpoint. Thread-safe."""

    def __init__(self, bytes_max: int = BYTES_MAX) -> None:
        self._half_bytes = bytes_max // 2
        self._newer: dict[Call, _Entry] = {}
        self._older: dict[Call, _Entry] = {}
        self._newer_bytes = 0
        self._older_bytes = 0
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """The memory used."""
        return self._newer_bytes + self._older_bytes

    def get(self, request: Message, rules: ServerRules, content: TableContent) -> bytes | None:
        """Return the cached answer to a call for a table with this content; None if there is none."""
        call = _identify(request, rules)
        entry = self._newer.get(call)
        if entry is None:
            entry = self._older.get(call)
            if entry is not None and entry.content == content:
                self._keep(call, entry)
        return None if entry is None or entry.content != content else entry.body

    def put(self, request: Message, rules: ServerRules, content: TableContent, body: bytes) -> None:
        """Cache the body of an answer made from a table with this content."""
        size = len(body) + len(request.body) + _OVERHEAD_BYTES
        if size <= min(LONGEST_BYTES, self._half_bytes):
            self._keep(_identify(request, rules), _Entry(content, body, size))

    def _keep(self, call: Call, entry: _Entry) -> None:
        with self._lock:
            self._forget(call)
            # Before storing the entry, not after: otherwise a half could have its share and one entry more.
            if self._newer_bytes + entry.size > self._half_bytes:
                self._older, self._older_bytes = self._newer, self._newer_bytes
                self._newer, self._newer_bytes = {}, 0
            self._newer[call] = entry
            self._newer_bytes += entry.size

    def _forget(self, call: Call) -> None:
        if (newer := self._newer.pop(call, None)) is not None:
            self._newer_bytes -= newer.size
        if (older := self._older.pop(call, None)) is not None:
            self._older_bytes -= older.size


def _identify(request: Message, rules: ServerRules) -> Call:
    return request.name, request.body, rules.is_hive_4, rules.has_catalogs
