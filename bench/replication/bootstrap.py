"""Cases of a bootstrap of many tables or partitions without rows, compared with REPL DUMP and REPL LOAD."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

from bench.events.environment import make_name, open_stack, say
from bench.replication.hive_cycles import HiveCycles, report
from bench.replication.policies import open_policy
from bench.report import Row, row
from dev.fixtures.hive_tables import ACID, a_partition, a_table
from dev.stack.endpoints import Endpoints
from dev.stack.errors import SqlFailed
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database


RIVAL: Final = "REPL DUMP and LOAD"
TIMES: Final = 3
TABLE: Final = "p"
PARTITIONS_AT_ONCE: Final = 500


def table_cases(quick: bool) -> Iterator[Row]:
    count = 50 if quick else 1_000
    with open_stack(engines=True) as endpoints:
        yield measure(endpoints, "bootstrap_tables", count, create_tables)


def partition_cases(quick: bool) -> Iterator[Row]:
    """Run on PostgreSQL, because REPL LOAD of this many partitions fails on Derby."""
    count = 1_000 if quick else 20_000
    with open_stack(engines=True, postgres=True) as endpoints:
        yield measure(endpoints, "bootstrap_partitions", count, create_partitions)


def create_tables(source: Metastore, db: str, count: int) -> None:
    for number in range(count):
        source.create_table(a_table(db, f"t{number:05d}", parameters=ACID))


def create_partitions(source: Metastore, db: str, count: int) -> None:
    source.create_table(a_table(db, TABLE, partition_keys=["dt"], parameters=ACID))
    table = source.get_table(db, TABLE)
    for start in range(0, count, PARTITIONS_AT_ONCE):
        numbers = range(start, min(count, start + PARTITIONS_AT_ONCE))
        partitions = [a_partition(table, f"{number:06d}") for number in numbers]
        source.add_partitions(db, TABLE, partitions)


def measure(
    endpoints: Endpoints, case: str, count: int, create: Callable[[Metastore, str, int], None]
) -> Row:
    """Create the database and bootstrap it once with each method. The order does not affect the results."""
    say(f"{case}: creating {count}")
    db = make_name("bootstrap")
    with Metastore(endpoints.source.metastore) as source:
        source.create_database(Database(name=db, parameters={"repl.source.for": "bench"}))
        create(source, db, count)
    say(f"{case}: Tideline")
    began_s = time.perf_counter()
    with open_policy(endpoints, db) as policy:
        own_s = time.perf_counter() - began_s
        assert not policy.projection.quarantined(), policy.projection.failures()
    say(f"{case}: {own_s:.1f} s; Hive")
    rival = None
    try:
        with HiveCycles(endpoints, db) as hive:
            rival = (RIVAL, hive.run().seconds)
    except SqlFailed as problem:
        report(problem)
    return row(case, own_s, "s", times=None if rival is None else TIMES, rival=rival)
