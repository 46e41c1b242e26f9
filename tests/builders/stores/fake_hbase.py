"""A happybase connection that keeps its rows in memory:
versions, deletions by family and the errors of a broken connection.

Of the filters, it only implements sending cells without values; the integration tests run the others on a
real HBase.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from handlers.hbase.gateway import Gateway
from handlers.hbase.store import HBaseStore


Row = dict[bytes, list[tuple[int, bytes]]]


@dataclass
class FakeHBase:
    """The server: its tables outlive connections; the next messages raise ``failures``, one each (None: no
    failure)."""

    tables: dict[str, defaultdict[bytes, Row]] = field(default_factory=dict)
    failures: list[BaseException | None] = field(default_factory=list)
    connections: int = 0
    messages: int = 0

    def connect(self) -> FakeConnection:
        self.connections += 1
        return FakeConnection(self)

    def gateway(self, table: str = "index") -> Gateway:
        return Gateway(self.connect, table, "fake:0")

    def store(self, table: str = "index") -> HBaseStore:
        return HBaseStore(self.gateway(table))

    def message(self) -> None:
        self.messages += 1
        if self.failures and (failure := self.failures.pop(0)) is not None:
            raise failure


@dataclass
class FakeConnection:
    """One connection."""

    server: FakeHBase

    def tables(self) -> list[bytes]:
        self.server.message()
        return [name.encode() for name in self.server.tables]

    def create_table(self, name: str, families: dict[str, Any]) -> None:
        self.server.message()
        assert all(options["max_versions"] == 1 for options in families.values())
        self.server.tables[name] = defaultdict(dict)

    def table(self, name: str) -> FakeTable:
        return FakeTable(self.server, name)

    def close(self) -> None:
        pass


@dataclass
class FakeTable:
    """The part of a happybase table that the product uses."""

    server: FakeHBase
    name: str

    @property
    def stored(self) -> defaultdict[bytes, Row]:
        return self.server.tables[self.name]

    def scan(
        self,
        *,
        row_start: bytes,
        row_stop: bytes,
        columns: list[bytes],
        filter: bytes | None,  # noqa: A002 - the name in happybase
        include_timestamp: bool,
        batch_size: int,
        limit: int,
    ) -> Iterator[tuple[bytes, dict[bytes, tuple[bytes, int]]]]:
        assert include_timestamp
        assert batch_size >= 1
        assert limit >= 1
        self.server.message()
        given = 0
        for row in sorted(self.stored):
            found = self._visible(row, columns) if row_start <= row < row_stop else {}
            if found and given < limit:
                given += 1
                keys_only = filter is not None and b"KeyOnlyFilter" in filter
                yield row, {name: (b"" if keys_only else value, at) for name, (value, at) in found.items()}

    def rows(
        self, rows: list[bytes], columns: list[bytes], *, include_timestamp: bool
    ) -> list[tuple[bytes, dict[bytes, tuple[bytes, int]]]]:
        assert include_timestamp
        if not rows:
            return []
        self.server.message()
        return [(row, found) for row in rows if row in self.stored and (found := self._visible(row, columns))]

    def counter_inc(self, row: bytes, column: bytes, amount: int) -> int:
        self.server.message()
        cell = self.stored[row].setdefault(column, [(0, b"0")])
        cell[:] = [(0, b"%d" % (int(cell[-1][1]) + amount))]
        return int(cell[-1][1])

    def batch(self, *, timestamp: int) -> FakeBatch:
        return FakeBatch(self, timestamp)

    def _visible(self, row: bytes, columns: list[bytes]) -> dict[bytes, tuple[bytes, int]]:
        found = {}
        cells = self.stored[row]
        for name, versions in cells.items():
            family = name.partition(b":")[0]
            deleted = max((at for at, _ in cells.get(family, [])), default=-1)
            at, value = max(versions, key=lambda version: version[0])
            if at > deleted and b":" in name and (name in columns or family in columns):
                found[name] = (value, at)
        return found


@dataclass
class FakeBatch:
    """The writes of one message."""

    table: FakeTable
    version: int
    writes: list[tuple[bytes, bytes, bytes]] = field(default_factory=list)

    def put(self, row: bytes, cells: dict[bytes, bytes]) -> None:
        self.writes += [(row, name, value) for name, value in cells.items()]

    def delete(self, row: bytes, columns: list[bytes]) -> None:
        self.writes += [(row, family, b"") for family in columns]

    def send(self) -> None:
        if not self.writes:
            return
        self.table.server.message()
        for row, name, value in self.writes:
            assert row
            versions = self.table.stored[row].setdefault(name, [])
            versions[:] = [*(each for each in versions if each[0] != self.version), (self.version, value)]
