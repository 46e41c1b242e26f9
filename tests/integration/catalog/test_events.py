"""Events of a real Hive lead to the same timelines as a rebuild from scratch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import pytest

from daemon.catalog.branch import OpenSource
from daemon.timelines.answers import TimelineAnswers, TimelinesView
from daemon.timelines.queries import CoverRange
from dev.fixtures.hive_tables import a_partition
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.timelines.rules import Rules
from handlers.metastore.client import Metastore
from state.errors import BadInput
from state.timelines.ignored_values import IgnoredValues
from state.timelines.table_properties import PARTITION_PERIOD, TIME_COLUMNS
from tests.builders.catalog.followed_catalog import FollowedCatalog, catalogs_of, rebuilt, rules_for


Make = Callable[[Rules], FollowedCatalog]


@pytest.fixture
def make(source: ClusterEndpoints) -> Iterator[Make]:
    with catalogs_of(source.metastore) as build:
        yield build


@pytest.fixture
def hive(source_sql: Session, database: str) -> Session:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"USE {database}")
    return source_sql


def assert_as_rebuilt(catalog: FollowedCatalog, source: ClusterEndpoints) -> None:
    assert catalog.content() == rebuilt(source.metastore, catalog.follower.rules)
    assert catalog.projection.states.waiting() == {}
    assert catalog.projection.quarantined() == ()


def test_adds_drops_and_renames_of_partitions_in_several_time_columns(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    hive.run("CREATE TABLE sales (id int) PARTITIONED BY (dt string, country string, it string)")
    catalog = make(rules_for(database, columns=("dt", "it")))
    catalog.follow()
    assert catalog.content() == {}
    for dt, country, it in (
        ("2015-01-01", "de", "2015-01-01-00"),
        ("2015-01-01", "fr", "2015-01-01-01"),
        ("2015-01-03", "de", "latest"),
        ("2015-01-02", "de", "2015-01-01-02"),
    ):
        hive.run(f"ALTER TABLE sales ADD PARTITION (dt='{dt}', country='{country}', it='{it}')")
    catalog.follow()
    name = f"{database}.sales"
    assert catalog.content() == {
        (name, "dt", "DAILY"): [("2015-01-01", "2015-01-03")],
        (name, "it", "HOURLY"): [("2015-01-01-00", "2015-01-01-02")],
    }
    assert catalog.timelines.skipped["no-time"] == 1
    hive.run("ALTER TABLE sales DROP PARTITION (dt='2015-01-01', country='fr')")
    catalog.follow()
    assert catalog.content()[name, "dt", "DAILY"] == [("2015-01-01", "2015-01-03")], "another still has it"
    hive.run("ALTER TABLE sales DROP PARTITION (dt='2015-01-01')")
    hive.run(
        "ALTER TABLE sales PARTITION (dt='2015-01-03', country='de', it='latest')"
        " RENAME TO PARTITION (dt='2015-01-07', country='de', it='2015-01-02-00')"
    )
    catalog.follow()
    assert catalog.content() == {
        (name, "dt", "DAILY"): [("2015-01-02", "2015-01-02"), ("2015-01-07", "2015-01-07")],
        (name, "it", "HOURLY"): [("2015-01-01-02", "2015-01-01-02"), ("2015-01-02-00", "2015-01-02-00")],
    }
    assert_as_rebuilt(catalog, source)


def test_a_condition_of_a_cover_selects_what_the_cover_names_or_is_refused(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    hive.run("CREATE TABLE days (id int) PARTITIONED BY (dt string)")
    for day in ("2024-01-01", "2024-01-02", "2024-01-02_backup", "2024-01-03", "2024-01-02.old", "latest"):
        hive.run(f"ALTER TABLE days ADD PARTITION (dt='{day}')")
    catalog, name = make(rules_for(database, columns=("dt",))), f"{database}.days"

    def select(where: Literal["in", "or", "between"]) -> list[str]:
        catalog.follow()
        view = TimelinesView(event_id=1, waiting={}, quarantined={}, timelines=catalog.timelines)
        answers = TimelineAnswers([OpenSource("lake", lambda: view)], lambda _: None)
        asked = CoverRange(name=name, start="2024-01-01", end="2024-01-04", where=where)
        condition = answers.answer(asked)["where"][name]
        return sorted(row[0] for row in hive.rows(f"SHOW PARTITIONS days WHERE {condition}"))

    days = ["dt=2024-01-01", "dt=2024-01-02", "dt=2024-01-03"]
    assert select("in") == select("or") == days
    with pytest.raises(BadInput, match=r"2024-01-02\.old"):
        select("between")
    hive.run("ALTER TABLE days DROP PARTITION (dt='2024-01-02_backup'), PARTITION (dt='2024-01-02.old')")
    assert select("between") == days
    assert catalog.timelines.ignored(name, "dt") == IgnoredValues.of(["latest"])
    assert_as_rebuilt(catalog, source)


def test_tables_that_are_renamed_dropped_and_created_again(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    catalog = make(rules_for(database))
    catalog.follow()
    hive.run("CREATE TABLE one (id int) PARTITIONED BY (dt string)")
    hive.run("ALTER TABLE one ADD PARTITION (dt='2015-01-01') PARTITION (dt='2015-01-02')")
    hive.run("CREATE TABLE two (id int) PARTITIONED BY (dt string)")
    hive.run("ALTER TABLE two ADD PARTITION (dt='2015-02-01')")
    hive.run("ALTER TABLE one RENAME TO three")
    hive.run("ALTER TABLE three ADD PARTITION (dt='2015-01-03')")
    hive.run("DROP TABLE two")
    hive.run("CREATE TABLE two (id int) PARTITIONED BY (hr string)")
    hive.run("ALTER TABLE two ADD PARTITION (hr='2015-01-01-00')")
    catalog.follow()
    assert catalog.content() == {
        (f"{database}.three", "dt", "DAILY"): [("2015-01-01", "2015-01-03")],
        (f"{database}.two", "hr", "HOURLY"): [("2015-01-01-00", "2015-01-01-00")],
    }
    assert_as_rebuilt(catalog, source)
    hive.run(f"DROP DATABASE {database} CASCADE")
    catalog.follow()
    assert catalog.content() == {}


def test_dynamic_partitions_of_plain_and_transactional_tables(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    hive.run("CREATE TABLE staged (id int, dt string)")
    hive.run("INSERT INTO staged VALUES (1, '2015-01-01'), (2, '2015-01-02'), (3, '2015-01-05')")
    hive.run("SET hive.exec.dynamic.partition.mode=nonstrict")
    for table, kind in (("plain", "EXTERNAL "), ("acid", "")):
        properties = "" if kind else "TBLPROPERTIES ('transactional'='true')"
        hive.run(f"CREATE {kind}TABLE {table} (id int) PARTITIONED BY (dt string) STORED AS ORC {properties}")
    catalog = make(rules_for(database, columns=("dt",)))
    catalog.follow()
    for table in ("plain", "acid"):
        hive.run(f"INSERT INTO {table} PARTITION (dt) SELECT id, dt FROM staged")
    catalog.follow()
    days = [("2015-01-01", "2015-01-02"), ("2015-01-05", "2015-01-05")]
    assert catalog.content() == {(f"{database}.{t}", "dt", "DAILY"): days for t in ("plain", "acid")}
    assert_as_rebuilt(catalog, source)


def test_a_table_of_lens_is_followed_by_its_own_properties_and_the_periods_of_its_partitions(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    hive.run("CREATE TABLE fact (id int) PARTITIONED BY (dt string, pt string)")
    catalog = make(Rules(lens=True, exclude=("default.*",)))
    catalog.follow()
    hive.run(f"ALTER TABLE fact SET TBLPROPERTIES ('{TIME_COLUMNS}'='dt')")
    with Metastore([source.metastore]) as client:
        table = client.get_table(database, "fact")
        quarters = a_partition(table, "2015-01", "x", parameters={PARTITION_PERIOD: "QUARTERLY"})
        months = a_partition(table, "2015-02", "x", parameters={PARTITION_PERIOD: "MONTHLY"})
        client.add_partitions(database, "fact", [quarters, months])
    catalog.follow()
    mine = {key[1:]: runs for key, runs in catalog.content().items() if key[0].startswith(f"{database}.")}
    assert mine == {
        ("dt", "QUARTERLY"): [("2015-01", "2015-01")],
        ("dt", "MONTHLY"): [("2015-02", "2015-02")],
    }


def test_repeated_events_change_nothing(
    hive: Session, database: str, make: Make, source: ClusterEndpoints
) -> None:
    hive.run("CREATE TABLE log (id int) PARTITIONED BY (dt string, x string)")
    catalog = make(rules_for(database, columns=("dt",)))
    start = catalog.follow()
    hive.run("ALTER TABLE log ADD PARTITION (dt='2015-01-01', x='1') PARTITION (dt='2015-01-01', x='2')")
    hive.run("ALTER TABLE log DROP PARTITION (dt='2015-01-01', x='1')")
    events = catalog.events(start.event_id)
    catalog.follow()
    before = catalog.content()
    catalog.projection.apply(events)
    late = make(rules_for(database, columns=("dt",)))
    late.projection.open()
    late.projection.load_all()
    late.projection.position = start  # as if the listing had been taken long after the position
    late.projection.apply(events)
    assert catalog.content() == late.content() == before
    assert_as_rebuilt(catalog, source)
