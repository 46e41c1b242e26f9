"""Timelines written into the table properties of a real Hive, and read back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from dev.fixtures.hive_tables import a_table
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.following.background import CallsAtOnce
from handlers.catalog.following.event_batch import _find_overwritten
from handlers.catalog.following.ports import NullObserver
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines import property_writer
from handlers.catalog.timelines.property_writer import _MODIFIED, TimelineName, migrate, write_properties
from handlers.catalog.timelines.publisher import TimelinePublisher
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import TableAltered
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database, FieldSchema
from state.errors import Conflict, InvalidRequest
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import APPLIED_EVENT, PRESENT, STORAGE_CLASS, build_key_prefix
from state.timelines.timeline import Timeline
from tests.builders.catalog.followed_catalog import FollowedCatalog, followed_catalog, rules_for
from tests.builders.catalog.steps import finish


DT = build_key_prefix(UpdatePeriod.DAILY, "dt")


class Outcomes(NullObserver):
    """Records the outcomes of publishing."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []

    def published(self, outcome: str) -> None:
        self.outcomes.append(outcome)


@pytest.fixture
def hive(source_sql: Session, database: str) -> Session:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"USE {database}")
    source_sql.run("CREATE TABLE sales (id int) PARTITIONED BY (dt string, it string)")
    source_sql.run("ALTER TABLE sales ADD PARTITION (dt='2015-01-01', it='2015-01-01-00')")
    return source_sql


@pytest.fixture
def catalog(hive: Session, source: ClusterEndpoints, database: str) -> Iterator[FollowedCatalog]:
    rules = rules_for(database, columns=("dt", "it"))
    built = followed_catalog(source.metastore, rules, publisher=TimelinePublisher)
    yield built
    built.projection.close()


@pytest.fixture
def client(source: ClusterEndpoints) -> Iterator[Metastore]:
    with Metastore([source.metastore]) as metastore:
        yield metastore


def properties(client: Metastore, database: str) -> dict[str, str]:
    return dict(client.get_table(database, "sales").parameters or {})


def events_since(client: Metastore, event_id: int, database: str) -> list[str]:
    """Return the types of later events of the database; other tests write into the same log."""
    return [event.eventType for event in client.next_events(event_id, 10_000) if event.dbName == database]


def test_published_properties_read_back_and_the_event_of_the_write_publishes_nothing(
    hive: Session, catalog: FollowedCatalog, client: Metastore, database: str
) -> None:
    before = properties(client, database)
    catalog.follow()
    catalog.projection.settle()
    hive.run("ALTER TABLE sales ADD PARTITION (dt='2015-01-03', it='2015-01-01-05')")
    catalog.follow()
    catalog.projection.settle()
    written = properties(client, database)
    assert written[PRESENT] == "true"
    assert int(written[APPLIED_EVENT]) <= catalog.projection.position.event_id
    for timeline in catalog.timelines.timelines(f"{database}.sales"):
        read = Timeline.from_properties(written, timeline.period, timeline.column)
        assert read.runs == timeline.runs
    assert {k: v for k, v in before.items() if k != "transient_lastDdlTime"}.items() <= written.items()
    newest = client.current_event_id()
    catalog.follow()
    catalog.projection.settle()
    catalog.follow()
    assert not events_since(client, newest, database), "our own event was answered with another"
    assert catalog.follower.unpublished == {}


def test_several_changes_are_one_write(
    hive: Session, source: ClusterEndpoints, client: Metastore, database: str
) -> None:
    catalog = followed_catalog(
        source.metastore, rules_for(database, columns=("dt",)), publisher=TimelinePublisher, delay_s=3600
    )
    catalog.follow()
    for day in range(2, 6):
        hive.run(f"ALTER TABLE sales ADD PARTITION (dt='2015-01-0{day}', it='x')")
        catalog.follow()
    assert PRESENT not in properties(client, database)
    catalog.follower.unpublished = dict.fromkeys(catalog.follower.unpublished, 0.0 - 3600)
    newest = client.current_event_id()
    catalog.projection.settle()
    assert events_since(client, newest, database) == ["ALTER_TABLE"]
    assert properties(client, database)[DT + "latest"] == "2015-01-05"
    catalog.projection.close()


def test_a_write_after_a_concurrent_change_is_retried_and_loses_nothing(
    hive: Session, client: Metastore, database: str
) -> None:
    meddled: list[str] = []

    def meddle() -> None:
        if not meddled:
            meddled.append("once")
            hive.run("ALTER TABLE sales SET TBLPROPERTIES ('owner.team'='tide')")

    assert write_properties(client, f"{database}.sales", lambda _: {"a": "1"}, before_write=meddle)
    after = properties(client, database)
    assert (after["a"], after["owner.team"]) == ("1", "tide")

    thrift: list[str] = []

    def change_by_thrift() -> None:
        if not thrift:
            table = client.get_table(database, "sales")
            thrift.append((table.parameters or {})["transient_lastDdlTime"])
            table.parameters = {**(table.parameters or {}), "thrift.team": "lens"}
            table.sd.cols = [*(table.sd.cols or []), FieldSchema(name="added", type="int")]
            client.alter_table(database, "sales", table)

    assert write_properties(client, f"{database}.sales", lambda _: {"b": "1"}, before_write=change_by_thrift)
    table = client.get_table(database, "sales")
    written = table.parameters or {}
    assert (written["b"], written["thrift.team"]) == ("1", "lens"), "it had kept the DDL time"
    assert [column.name for column in table.sd.cols or []] == ["id", "added"]

    ddl_times = iter(range(1, 100))

    def always() -> None:
        table = client.get_table(database, "sales")
        table.parameters = {**(table.parameters or {}), "transient_lastDdlTime": str(next(ddl_times))}
        client.alter_table(database, "sales", table)

    with pytest.raises(Conflict):
        write_properties(client, f"{database}.sales", lambda _: {"a": "2"}, before_write=always)
    assert properties(client, database)["a"] == "1"


def test_the_event_of_a_write_shows_what_it_has_overwritten_after_the_last_comparison(
    hive: Session,
    catalog: FollowedCatalog,
    client: Metastore,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    newest = client.current_event_id()
    catalog.follow()
    catalog.projection.settle()
    write = property_writer._alter

    def write_after_another(*arguments: Any) -> None:
        table = client.get_table(database, "sales")
        table.parameters = {**(table.parameters or {}), "thrift.team": "lens"}
        table.sd.cols = [*(table.sd.cols or []), FieldSchema(name="added", type="int")]
        client.alter_table(database, "sales", table)
        write(*arguments)

    monkeypatch.setattr(property_writer, "_alter", write_after_another)
    assert write_properties(client, f"{database}.sales", lambda _: {DT + "latest": "2015-01-09"})
    altered = [event for event in catalog.events(newest) if isinstance(event, TableAltered)]
    first, _, last = [event for event in altered if event.db == database]
    assert _find_overwritten(first) == [], "a write that nothing came before"
    assert _find_overwritten(last) == ["sd", "thrift.team"]


def test_a_metastore_refuses_a_write_that_compares_another_ddl_time_and_says_so_in_words_that_are_known(
    hive: Session, client: Metastore, database: str
) -> None:
    table = client.get_table(database, "sales")
    table.parameters = {**(table.parameters or {}), "transient_lastDdlTime": "7"}
    with pytest.raises(InvalidRequest, match=_MODIFIED.pattern):
        client.alter_table(database, "sales", table, expected=("transient_lastDdlTime", "1"))


def test_a_migration_changes_only_one_timeline(
    hive: Session, catalog: FollowedCatalog, client: Metastore, database: str
) -> None:
    catalog.follow()
    hive.run("ALTER TABLE sales ADD PARTITION (dt='2015-01-04', it='2015-01-01-05')")
    catalog.follow()
    before = properties(client, database)
    assert before[DT + "holes0"] == "2015-01-02,2015-01-03"
    name = TimelineName(f"{database}.sales", UpdatePeriod.DAILY, "dt")
    done = finish(migrate(catalog.store, catalog.follower, CallsAtOnce(client), name.table, name, "ranges"))
    assert (done.before, done.after, done.written) == ("ends-and-holes", "ranges", True)
    after = properties(client, database)
    changed = {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)}
    assert {key for key in changed if not key.startswith(DT)} <= {"transient_lastDdlTime"}
    assert after[DT + STORAGE_CLASS].endswith(".RangesPartitionTimeline")
    assert (after[DT + "first"], after[DT + "holes.size"], after[DT + "holes0"]) == ("", "0", "")
    assert after[DT + "ranges0"] == "[2015-01-01, 2015-01-02),[2015-01-04, 2015-01-05)"
    again = finish(migrate(catalog.store, catalog.follower, CallsAtOnce(client), name.table, name, "ranges"))
    assert again.written is False
    newest = client.current_event_id()
    catalog.follow()
    assert not events_since(client, newest, database), "what is published next is what was migrated to"
    hive.run("ALTER TABLE sales ADD PARTITION (dt='2015-01-05', it='2015-01-01-06')")
    catalog.follow()
    read = Timeline.from_properties(properties(client, database), UpdatePeriod.DAILY, "dt")
    assert (read.form.name, str(read.latest())) == ("ranges", "2015-01-05")


def test_a_table_of_lens_is_first_loaded_from_its_own_properties(
    hive: Session, source: ClusterEndpoints, client: Metastore, database: str
) -> None:
    lens = Timeline(UpdatePeriod.DAILY, "dt")
    lens.runs.add(UpdatePeriod.DAILY.parse("2014-12-31"))
    write_properties(client, f"{database}.sales", lambda _: {**lens.to_properties(), PRESENT: "TRUE"})
    catalog = followed_catalog(source.metastore, rules_for(database, columns=("dt",)))
    catalog.follow()
    key = (f"{database}.sales", "dt", "DAILY")
    assert catalog.content() == {key: [("2014-12-31", "2014-12-31")]}, "from the properties"
    hive.run("ALTER TABLE sales DROP PARTITION (dt='2015-01-01')")
    hive.run("ALTER TABLE sales ADD PARTITION (dt='2015-01-09', it='x')")
    catalog.follow()
    assert catalog.content() == {key: [("2015-01-09", "2015-01-09")]}, "a drop it could not decide reloads it"
    catalog.projection.close()


def test_timelines_of_the_source_are_written_to_a_target_once_its_table_exists(
    hive: Session,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    client: Metastore,
    database: str,
) -> None:
    follower = TimelineFollower(rules_for(database, columns=("dt",)), publishes=True)
    observer = Outcomes()
    there = Metastore([target.metastore])
    publisher = TimelinePublisher(
        calls=CallsAtOnce(there),
        follower=follower,
        delay_s=0,
        observer=observer,
        database=lambda name: f"{name}_r",
    )
    catalog = followed_catalog(source.metastore, follower.rules)
    projection = CatalogProjection(
        source_name="s",
        source=catalog.source,
        store=catalog.store,
        followers=[follower],
        publisher=publisher,
    )
    projection.open()
    projection.load_all()
    projection.settle()
    assert observer.outcomes == ["not-there-yet"]
    there.create_database(Database(name=f"{database}_r"))
    there.create_table(a_table(f"{database}_r", "sales", partition_keys=("dt", "it")))
    projection.settle()
    assert observer.outcomes[-1] == "written"
    written = there.get_table(f"{database}_r", "sales").parameters or {}
    assert written[DT + "latest"] == "2015-01-01"
    assert PRESENT not in properties(client, database), "the source's own table is left alone"
    projection.settle()
    assert observer.outcomes == ["not-there-yet", "written"]
    projection.close()
    there.close()
