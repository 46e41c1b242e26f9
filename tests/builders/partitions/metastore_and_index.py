"""A metastore and an index with the same partitions, to send the same filters to both."""

from __future__ import annotations

import itertools
import random
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from dev.fixtures.hive_tables import a_partition, a_table
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.index.lookups import TableLookups
from tests.builders.partitions.indexed_tables import DEFAULT, TABLE, an_index


COLUMNS = [("i", "int"), ("s", "string"), ("d", "date")]
# Without 007 and without a wildcard next to a similar value: other tests cover how Hive treats those.
TEXTS = [
    ["0", "7", "-1", "255", "256", "511", "2147483647", DEFAULT],
    ["a", "b", "ab", "A", "it's", "50%", "日", DEFAULT],
    ["2020-06-17", "2020-06-18", "1969-12-31", "1970-01-01", DEFAULT],
]


def sixty_rows() -> list[tuple[str, ...]]:
    """Return partitions drawn from ``TEXTS``, equal in every run."""
    draw = random.Random(9452)  # noqa: S311 - a test's rows, no secret
    return draw.sample(list(itertools.product(*TEXTS)), 60)


class BothSides:
    """Return the results of both, as the values of partitions."""

    def __init__(self, thrift: Any, db: str, rows: Sequence[tuple[str, ...]], dialect: Dialect) -> None:
        self._thrift = thrift
        self._db = db
        self._index = an_index(COLUMNS, rows)
        self._lookups = TableLookups(self._index, TABLE, dialect)

    def theirs(self, text: str, most: int = -1) -> list[tuple[str, ...]]:
        return [
            tuple(found.values) for found in self._thrift.get_partitions_by_filter(self._db, "p", text, most)
        ]

    def ours(self, text: str, most: int = -1) -> list[tuple[str, ...]]:
        prepared = self._lookups.by_filter(text).prepared
        return [partition.values for partition in self._index.partitions(prepared, most)]

    def names_ps(self, values: Sequence[str]) -> tuple[list[str], list[str]]:
        theirs = self._thrift.get_partition_names_ps(self._db, "p", values, -1)
        return sorted(theirs), [name.decode() for name in self._lookups.by_values(values).names()]


@contextmanager
def both_sides(uri: str, rows: Sequence[tuple[str, ...]], dialect: Dialect = HIVE_4) -> Iterator[BothSides]:
    """Fill a table of a metastore, and an index with its dialect."""
    with filled_table(uri, rows) as (thrift, db):
        yield BothSides(thrift, db, rows, dialect)


@contextmanager
def filled_table(uri: str, rows: Sequence[tuple[str, ...]]) -> Iterator[tuple[Any, str]]:
    """Fill a table ``p`` of a new database; return a client of Hive's own interface and the database."""
    db = f"partitions_{uuid.uuid4().hex[:12]}"
    host, port = uri.removeprefix("thrift://").split(":")
    transport = TBufferedTransport(TSocket(host, int(port)))
    with Metastore(uri) as client:
        client.create_database(Database(name=db))
        table = a_table(db, "p", partition_keys=[name for name, _ in COLUMNS], external=True)
        for key, (_, declared) in zip(table.partitionKeys or [], COLUMNS, strict=True):
            key.type = declared
        client.create_table(table)
        known = client.get_table(db, "p")
        client.add_partitions(db, "p", [a_partition(known, *values) for values in rows])
        transport.open()
        try:
            yield ThriftHiveMetastore.Client(TBinaryProtocol(transport)), db
        finally:
            transport.close()
            client.drop_database(db, cascade=True)
