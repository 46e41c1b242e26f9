"""Compares the partition index with a real metastore (Hive 2.3.10 over Thrift, Derby on disk) that has the
same partitions.

The benchmark makes Spark's call, ``get_partitions_by_filter``. The metastore returns partitions, which
Thrift's compiled reader decodes. The index returns their names. Adding partitions is slow (a millisecond or
two each), so the table grows from the smaller size to the larger, and both sizes are measured on the way. The
results are compared each time.
"""

from __future__ import annotations

import itertools
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport

from bench.report import Row, median_s, row
from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.hive.old_metastore import OldMetastore
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database, FieldSchema, Partition, Table
from state.partitions.filters.dialect import HIVE_2
from state.partitions.index.lookups import TableLookups
from state.partitions.index.partition_index import PartitionIndex
from state.store.memory import MemoryStore


DB, TABLE = "bench", "events"
COLUMNS: Final = [("ds", "string"), ("hr", "int"), ("region", "string")]
REGIONS, HOURS = 20, 24
PER_DAY = REGIONS * HOURS
BATCH = 500
_RIVAL = "Hive 2.3.10"
_SPACES = itertools.count()

Values = tuple[str, str, str]


def measure_metastore(quick: bool) -> Iterator[Row]:
    """Measure at 20,000 and 100,000 partitions, or at 2,400 for a quick run."""
    sizes = [2_400] if quick else [20_000, 100_000]
    with tempfile.TemporaryDirectory() as folder:
        server = OldMetastore(Path(folder), "2.3", has_log=False)
        server.start()
        try:
            yield from _measure_sizes(server, sizes)
        finally:
            server.stop()


def _measure_sizes(server: OldMetastore, sizes: list[int]) -> Iterator[Row]:
    all_values = generate_values()
    index = _create_index()
    lookups = TableLookups(index, f"{DB}.{TABLE}", HIVE_2)
    transport = TBufferedTransport(TSocket("127.0.0.1", server.port), rbuf_size=1 << 20)
    transport.open()
    thrift = ThriftHiveMetastore.Client(TBinaryProtocolAccelerated(transport))
    with Metastore(server.uri) as client:
        table = _create(client)
        have = 0
        for size in sizes:
            _add(client, table, index, list(itertools.islice(all_values, size - have)), size)
            have = size
            yield from _compare(thrift, lookups, size)
    transport.close()


def _compare(thrift: ThriftHiveMetastore.Client, lookups: TableLookups, size: int) -> Iterator[Row]:
    for case, text in _list_filters():
        theirs = [p.values for p in thrift.get_partitions_by_filter(DB, TABLE, text, -1)]
        prepared = lookups.by_filter(text).prepared
        ours = [list(partition.values) for partition in lookups.index.partitions(prepared)]
        assert ours == theirs, (text, len(ours), len(theirs))
        own_s = median_s(partial(_find_names, lookups, text), repeats=9)
        rival_s = median_s(partial(thrift.get_partitions_by_filter, DB, TABLE, text, -1), repeats=3)
        is_judged = size == 100_000
        yield row(
            f"metastore_{size // 1000}k_{case}",
            own_s * 1e3,
            "ms",
            times=100 if is_judged else None,
            rival=(_RIVAL, rival_s * 1e3),
        )


def _find_names(lookups: TableLookups, text: str) -> list[bytes]:
    # Use a different text each time, so that no plan is cached.
    return lookups.by_filter(text + " " * (next(_SPACES) % 1_000)).names()


def _list_filters() -> list[tuple[str, str]]:
    """Return the filters of the reference (partition-filters.md §5), for a day in the middle of the smaller
    table.
    """
    day, next_day = format_day(2), format_day(3)
    return [
        ("day_480", f"ds = '{day}'"),
        ("hour_20", f"ds = '{day}' and hr = 5"),
        ("point", f"ds = '{day}' and hr = 5 and region = 'r07'"),
        ("two_days_960", f"ds >= '{day}' and ds <= '{next_day}'"),
        ("hour_and_region", "hr = 5 and region = 'r07'"),
        ("region", "region = 'r07'"),
        ("like", f"ds like '{day}.*'"),
    ]


def generate_values() -> Iterator[Values]:
    """Yield the values of partitions, day by day."""
    for number in itertools.count():
        for at in range(PER_DAY):
            yield format_day(number), str(at // REGIONS), f"r{at % REGIONS:02}"


def format_day(number: int) -> str:
    """Return a day as a partition value."""
    return f"{2020 + number // 360}-{number // 30 % 12 + 1:02}-{number % 30 + 1:02}"


def _create_index() -> PartitionIndex:
    store = MemoryStore()
    index = PartitionIndex(store)
    with store.transaction() as txn:
        change = index.change(txn)
        change.follow(f"{DB}.{TABLE}", COLUMNS)
    change.publish()
    return index


def _create(client: Metastore) -> Table:
    client.create_database(Database(name=DB))
    table = a_table(DB, TABLE, external=True)
    table.partitionKeys = [FieldSchema(name=name, type=kind) for name, kind in COLUMNS]
    client.create_table(table)
    return client.get_table(DB, TABLE)


def _add(client: Metastore, table: Table, index: PartitionIndex, values: list[Values], size: int) -> None:
    for start in range(0, len(values), BATCH):
        some = values[start : start + BATCH]
        client.add_partitions(DB, TABLE, [build_partition(table, each) for each in some])
        print(f"\r{size - len(values) + start + len(some):,} partitions", end="", file=sys.stderr)
    print(file=sys.stderr)
    reader = index._reader  # noqa: SLF001 - the benchmark fills the store that the index reads
    assert isinstance(reader, MemoryStore)
    with reader.transaction() as txn:
        change = index.change(txn)
        for each in values:
            change.add(f"{DB}.{TABLE}", each)
    change.publish()


def build_partition(table: Table, values: Values) -> Partition:
    """Return a partition in the directory of its table."""
    partition = a_partition(table, *values)
    assert partition.sd is not None
    # Use the table's existing directory, because creating a hundred thousand directories would measure the
    # file system.
    partition.sd.location = table.sd.location
    return partition
