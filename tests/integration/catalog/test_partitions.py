"""Events of a real Hive keep the partition index equal to the metastore, field by field."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from dev.fixtures.hive_tables import a_partition, a_table
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.following.loads import steps
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.catalog.timelines.rules import Rules
from handlers.metastore.calls import DECLARED, Call
from handlers.metastore.client import Metastore
from handlers.structs import binary
from handlers.structs.exceptions import MetaException, NoSuchObjectException
from handlers.structs.objects import Partition
from handlers.structs.struct import i16
from state.errors import NotFound
from tests.builders.catalog.followed_catalog import FollowedCatalog, catalogs_of


BY_FILTER = Call(
    "get_partitions_by_filter",
    {"db_name": str, "tbl_name": str, "filter": str, "max_parts": i16},
    list[Partition],
    (MetaException, NoSuchObjectException),
    changes=False,
)
del DECLARED[BY_FILTER.name]  # the client does not have it, and its interface is tested as a whole
KINDS = {
    "plain": "CREATE EXTERNAL TABLE {} (id int, name string) PARTITIONED BY (dt string, hr int)",
    "acid": "CREATE TABLE {} (id int, name string) PARTITIONED BY (dt string, hr int) STORED AS ORC"
    " TBLPROPERTIES ('transactional'='true')",
}
ONLY = {"acid": ("UPDATE", "DELETE", "TRUNCATE")}
Make = Callable[[], FollowedCatalog]


@pytest.fixture
def make(source: ClusterEndpoints, database: str) -> Iterator[Make]:
    rules = PartitionRules((f"{database}.*",))
    with catalogs_of(source.metastore) as build:
        yield lambda: build(Rules(lens=False), partitions=rules)


@pytest.fixture
def hive(source_sql: Session, database: str) -> Session:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"USE {database}")
    source_sql.run("SET hive.exec.dynamic.partition.mode=nonstrict")
    return source_sql


def asked(client: Metastore, database: str, table: str, text: str) -> list[Partition]:
    """What the metastore answers to a filter."""
    found: list[Partition] = client._invoke(BY_FILTER, database, table, text, -1)
    return found


def answer(catalog: FollowedCatalog, name: str, text: str) -> list[Partition]:
    """What the index answers to a filter."""
    db, _, table = name.partition(".")
    with catalog.partitions.snapshot() as snapshot:
        payloads = [payload for _, payload in snapshot.lookups(name).by_filter(text).payloads()]
        return snapshot.payloads.unpack_all(payloads, db, table, snapshot.budget)


def assert_as_the_metastore(catalog: FollowedCatalog, database: str, *tables: str) -> None:
    for table in tables:
        name = f"{database}.{table}"
        with catalog.partitions.snapshot() as snapshot:
            names = [name.decode() for name in snapshot.lookups(name).by_filter("").names()]
        assert names == catalog.source.partition_names(database, table)
        by_values = {tuple(one.values): one for one in asked(catalog.source, database, table, "")}
        assert {tuple(one.values): one for one in answer(catalog, name, "")} == by_values
    assert catalog.projection.quarantined() == ()
    assert catalog.projection.states.waiting() == {}


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_of_every_partition_equals_that_of_the_metastore(
    hive: Session, database: str, make: Make, kind: str
) -> None:
    hive.run(KINDS[kind].format("t"))
    catalog = make()
    catalog.follow()
    steps = [
        "ALTER TABLE t ADD PARTITION (dt='2015-01-01', hr=5) PARTITION (dt='a b/%', hr=6)",
        "INSERT INTO t PARTITION (dt='2015-01-01', hr=5) VALUES (1, 'a')",
        "INSERT INTO t PARTITION (dt, hr) VALUES (1, 'a', 'x', 1), (2, 'b', 'y', 2), (3, 'c', NULL, 3)",
        "ANALYZE TABLE t PARTITION (dt='x', hr=1) COMPUTE STATISTICS FOR COLUMNS",
        "ALTER TABLE t PARTITION (dt='x', hr=1) RENAME TO PARTITION (dt='xx', hr=1)",
        "ALTER TABLE t ADD COLUMNS (c int) CASCADE",
        "ALTER TABLE t ADD COLUMNS (d int)",
        "INSERT OVERWRITE TABLE t PARTITION (dt='y', hr=2) SELECT 1, 'a', 1, 1",
        "ALTER TABLE t DROP PARTITION (dt='a b/%')",
        "ALTER TABLE t PARTITION (dt='y', hr=2) SET LOCATION 'file:/tmp/elsewhere'",
        "TRUNCATE TABLE t PARTITION (dt='2015-01-01', hr=5)",
        "UPDATE t SET name = 'q' WHERE id = 3",
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t DROP PARTITION (dt='__HIVE_DEFAULT_PARTITION__')",
    ]
    for step in steps:
        if step.startswith(ONLY["acid"]) and kind != "acid":
            continue
        hive.run(step)
        catalog.follow()
        assert_as_the_metastore(catalog, database, "t")
    hive.run("ALTER TABLE t RENAME TO u")
    catalog.follow()
    assert_as_the_metastore(catalog, database, "u")
    with pytest.raises(NotFound):
        answer(catalog, f"{database}.t", "")


@pytest.mark.parametrize("kind", KINDS)
def test_a_column_added_without_cascade_loads_no_partitions(
    hive: Session, database: str, make: Make, kind: str
) -> None:
    hive.run(KINDS[kind].format("t"))
    hive.run("INSERT INTO t PARTITION (dt, hr) VALUES (1, 'a', 'x', 1), (2, 'b', 'y', 2)")
    hive.run("ANALYZE TABLE t PARTITION (dt='x', hr=1) COMPUTE STATISTICS FOR COLUMNS")
    catalog = make()
    catalog.follow()

    def loaded_as_of() -> int:
        known = catalog.projection.states.get(f"{database}.t")
        assert known is not None
        return known.as_of

    first = loaded_as_of()
    for statement in ("ADD COLUMNS (c int)", "ADD COLUMNS (d int, e string)"):
        hive.run(f"ALTER TABLE t {statement}")
        catalog.follow()
        assert_as_the_metastore(catalog, database, "t")
    assert loaded_as_of() == first, "only the columns were recorded"
    hive.run("ALTER TABLE t ADD COLUMNS (f int) CASCADE")
    catalog.follow()
    assert_as_the_metastore(catalog, database, "t")
    cascaded = loaded_as_of()
    assert cascaded > first
    hive.run("ALTER TABLE t CHANGE COLUMN f g int")
    catalog.follow()
    assert_as_the_metastore(catalog, database, "t")
    assert loaded_as_of() > cascaded, "a renamed column may change parameters of partitions"


def test_tables_that_are_dropped_and_created_again_with_other_types(
    hive: Session, database: str, make: Make
) -> None:
    catalog = make()
    catalog.follow()
    hive.run("CREATE TABLE one (id int) PARTITIONED BY (dt string)")
    hive.run("ALTER TABLE one ADD PARTITION (dt='2015-01-01') PARTITION (dt='2015-01-02')")
    hive.run("DROP TABLE one")
    hive.run("CREATE TABLE one (id int) PARTITIONED BY (dt date)")
    hive.run("ALTER TABLE one ADD PARTITION (dt='2015-01-07')")
    catalog.follow()
    assert_as_the_metastore(catalog, database, "one")
    assert answer(catalog, f"{database}.one", "dt < date '2015-01-05'") == []
    hive.run(f"DROP DATABASE {database} CASCADE")
    catalog.follow()
    assert not catalog.partitions.indexed


def test_random_changes_through_the_metastore_client(
    hive: Session, database: str, make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(steps, "PIECE", 7)
    drawn = random.Random(5)  # noqa: S311 - a test's history, no secret
    catalog = make()
    client = catalog.source
    client.create_table(a_table(database, "r", partition_keys=("ds", "k"), external=True))
    table = client.get_table(database, "r")
    held: set[tuple[str, str]] = set()
    for round_ in range(6):
        for _ in range(20):
            values = (f"2015-01-{drawn.randrange(1, 20):02}", drawn.choice("abc"))
            if values not in held:
                client.add_partitions(database, "r", [a_partition(table, *values)])
                held.add(values)
            elif drawn.random() < 0.5:
                client.drop_partition(database, "r", values)
                held.discard(values)
            else:
                altered = client.get_partition(database, "r", values)
                altered.parameters = {**(altered.parameters or {}), "round": str(round_)}
                client.alter_partitions(database, "r", [altered])
        if round_ == 3:
            catalog.projection.request_load(f"{database}.r")
            catalog.projection.settle()
        catalog.follow()
        assert_as_the_metastore(catalog, database, "r")
        for text in ("ds >= '2015-01-10'", "k = 'b'", "ds < '2015-01-05' and k != 'a'"):
            mine = {tuple(p.values): p for p in answer(catalog, f"{database}.r", text)}
            assert mine == {tuple(p.values): p for p in asked(client, database, "r", text)}, text


def test_a_payload_is_a_small_part_of_the_bytes_on_the_wire(hive: Session, database: str, make: Make) -> None:
    hive.run(KINDS["plain"].format("t"))
    hive.run("INSERT INTO t PARTITION (dt, hr) VALUES (1, 'a', 'x', 1), (2, 'b', 'y', 2)")
    catalog = make()
    catalog.follow()
    index = catalog.partitions.index
    for found in index.partitions(index.prepare(f"{database}.t", "")):
        whole: Any = catalog.partitions.whole(f"{database}.t", found)
        assert len(found.payload) * 4 < len(binary.encode(whole))
