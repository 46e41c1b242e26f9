"""Plain managed tables of older sources on a target of Hive 4.2, which makes them external when they are
created."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace

import pytest

from dev.fixtures.hive_tables import a_partition, whole_number_statistics
from dev.fixtures.notifications import read_events
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.old_metastore import OldMetastore
from dev.stack.hive.servers import Metastore as HiveMetastore
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.events import TableCreated
from handlers.files.paths import parse_location
from handlers.replication.effects import tables
from handlers.replication.target.objects import KEEP_STATISTICS
from handlers.replication.verification.findings import Outcome
from handlers.structs.objects import Database, FieldSchema
from tests.builders.components.availability import start_or_skip
from tests.builders.replication.loads import load_all
from tests.builders.replication.old_source import insert_rows, text_table, write_rows
from tests.builders.replication.replica import build_replica
from tests.builders.replication.verification import FollowedReplica, verifier_of


pytestmark = [pytest.mark.old_hive, pytest.mark.long]
TRANSLATED = {"EXTERNAL": "TRUE", "TRANSLATED_TO_EXTERNAL": "TRUE", "external.table.purge": "TRUE"}


@dataclass
class AppliedEvents(FollowedReplica):
    """The replica's progress in its state, which the target's own position follows within a second."""

    applied: int = 0

    def position(self) -> int:
        return self.applied


class Source:
    """A database of an older metastore, and its replica."""

    def __init__(self, metastore: OldMetastore, target: ClusterEndpoints, *, base: str | None = None) -> None:
        self.db = f"old_{uuid.uuid4().hex[:8]}"
        self.client = WritingMetastore(metastore.uri)
        self.start = self.client.current_event_id()
        self.client.create_database(Database(name=self.db))
        self.applied = self.start
        self.replica = build_replica(
            metastore.uri,
            target.metastore,
            db=self.db,
            roots=[f"{metastore.directory}"],
            start=self.start,
            external_base=base,
        )

    def follow(self) -> None:
        """Apply all events, also that of the mark which replay gives the source's database."""
        self.replica.follow()
        self.applied = self.replica.follow().event_id

    def close(self) -> None:
        self.replica.projection.close()
        self.client.close()

    def create(self, name: str, rows: str = "", **options: object) -> None:
        self.client.create_table(text_table(self.db, name, **options))
        if rows:
            insert_rows(self.client, self.db, name, rows)

    def create_partitioned(self, name: str, *values: str) -> None:
        self.create(name, partition_keys=["dt"])
        table = self.client.get_table(self.db, name)
        for value in values:
            partition = a_partition(table, value)
            write_rows(partition.sd.location, "000000_0", f"{ord(value)}\n")
            self.client.add_partitions(self.db, name, [partition])

    def alter(self, name: str, *, new_name: str | None = None, **parameters: str) -> None:
        table = self.client.get_table(self.db, name)
        table.parameters = {**(table.parameters or {}), **parameters}
        table.tableName = new_name or name
        self.client.alter_table(self.db, name, table)

    def type_on_target(self, name: str) -> tuple[str | None, dict[str, str]]:
        table = self.replica.target.get_table(self.replica.policy.target_db, name)
        return table.tableType, {k: v for k, v in (table.parameters or {}).items() if k in TRANSLATED}

    def differences(self) -> dict[str, list[str]]:
        """Return what differs by table; without statistics, which metastores of two versions keep
        differently."""
        following = AppliedEvents(self.replica, applied=self.applied)
        with verifier_of(self.replica, following) as verifier:
            results = {name: verifier.verify_table(name) for name in self.replica.source.table_names(self.db)}
        assert {result.outcome for result in results.values()} <= {Outcome.EQUAL, Outcome.DIFFERS}, results
        return {
            name: [str(each) for each in result.differences if each.kind != "statistics"]
            for name, result in results.items()
        }


@pytest.fixture
def source(old_metastore: OldMetastore, target: ClusterEndpoints) -> Iterator[Source]:
    with closing(Source(old_metastore, target)) as made:
        yield made


def add_column(source: Source) -> None:
    table = source.client.get_table(source.db, "sales")
    table.sd.cols = [*(table.sd.cols or []), FieldSchema(name="more", type="string")]
    source.client.alter_table(source.db, "sales", table)


def alter_partition(source: Source) -> None:
    (partition,) = source.client.get_partitions(source.db, "parts", ["dt=a"])
    partition.parameters = {"reviewed": "yes"}
    source.client.alter_partitions(source.db, "parts", [partition])


def rename_partition(source: Source) -> None:
    (partition,) = source.client.get_partitions(source.db, "parts", ["dt=a"])
    partition.values = ["c"]
    source.client.rename_partition(source.db, "parts", ["a"], partition)


CHANGES: dict[str, Callable[[Source], None]] = {
    "columns": add_column,
    "properties": lambda source: source.alter("sales", owner_team="x"),
    "properties of a partitioned table": lambda source: source.alter("parts", owner_team="x"),
    "statistics": lambda source: source.client.update_table_statistics(
        whole_number_statistics(source.db, "sales", "id", 2)
    ),
    "a partition": alter_partition,
    "a partition's name": rename_partition,
    "a name": lambda source: source.alter("sales", new_name="orders"),
    "a partitioned table's name": lambda source: source.alter("parts", new_name="pieces"),
}


def test_a_translated_table_stays_external_after_every_kind_of_change(source: Source) -> None:
    source.create("sales", "1\n2\n")
    source.create_partitioned("parts", "a", "b")
    source.follow()
    for what, change in CHANGES.items():
        change(source)
        source.follow()
        for name in source.replica.source.table_names(source.db):
            assert source.type_on_target(name) == ("EXTERNAL_TABLE", TRANSLATED), (what, name)
    assert not any(source.differences().values())
    assert source.replica.quarantined() == {}


def test_a_renamed_table_does_not_share_its_directory_with_the_next_one_of_its_name(
    source: Source, target_sql: Session
) -> None:
    """Hive moves the directory only if both tables of the request are translated."""
    source.create("sales", "1\n")
    source.follow()
    source.alter("sales", new_name="older")
    source.create("sales", "2\n")
    source.follow()
    db = source.replica.policy.target_db
    assert target_sql.rows(f"select id from {db}.older") == [("1",)]
    assert target_sql.rows(f"select id from {db}.sales") == [("2",)]


def test_a_table_that_an_earlier_version_made_managed_is_reported_and_its_next_change_mends_it(
    source: Source, target_sql: Session
) -> None:
    db = source.replica.policy.target_db
    for name in ("altered", "renamed"):
        source.create(name, "1\n")
        source.follow()
        managed = source.replica.target.get_table(db, name)
        managed.tableType, managed.parameters = "MANAGED_TABLE", {}
        source.replica.target.alter_table(db, name, managed, environment=KEEP_STATISTICS)
        assert source.type_on_target(name)[0] == "MANAGED_TABLE"
        assert any("type" in each for each in source.differences()[name])
    source.alter("altered", reviewed="yes")
    source.alter("renamed", new_name="moved")
    source.create("renamed", "2\n")
    source.follow()
    assert {name: source.type_on_target(name)[0] for name in ("altered", "moved")} == {
        "altered": "EXTERNAL_TABLE",
        "moved": "EXTERNAL_TABLE",
    }
    assert target_sql.rows(f"select id from {db}.moved") == [("1",)]
    assert target_sql.rows(f"select id from {db}.renamed") == [("2",)]
    assert not any(source.differences().values())


def test_a_table_becomes_external_by_a_property_alone_and_a_drop_keeps_its_files(source: Source) -> None:
    """The event of such an ALTER_TABLE still says that the table is managed."""
    source.create("sales", "1\n")
    source.create("born", "1\n", parameters={"EXTERNAL": "TRUE"})
    source.follow()
    source.alter("sales", EXTERNAL="TRUE")
    source.follow()
    db, kept = source.replica.policy.target_db, []
    for name in ("sales", "born"):
        assert source.type_on_target(name) == ("EXTERNAL_TABLE", {"EXTERNAL": "TRUE"})
        kept.append(source.replica.target.get_table(db, name).sd.location or "")
    assert not any(source.differences().values())
    for name in ("sales", "born"):
        source.client.drop_table(source.db, name)
    source.follow()
    files = [source.replica.files.of(parse_location(each)).list(parse_location(each)) for each in kept]
    assert [[file.name for file in found] for found in files] == [["000000_0"], ["000000_0"]]


def test_a_creation_that_is_repeated_after_a_crash_finds_the_translated_table(source: Source) -> None:
    source.create("sales", "1\n")
    source.follow()
    (event,) = [each for each in read_events(source.client, source.start) if isinstance(each, TableCreated)]
    tables.create(event, source.replica.context)
    assert source.replica.quarantined() == {}
    assert not any(source.differences().values())


def test_a_loaded_table_is_translated_too(old_metastore: OldMetastore, target: ClusterEndpoints) -> None:
    with closing(Source(old_metastore, target)) as source:
        source.create("sales", "1\n2\n")
        source.create_partitioned("parts", "a", "b")
        target_db = Database(name=source.replica.policy.target_db, ownerName="ann")
        source.replica.target.create_database(target_db)
        loads = load_all(source.replica)
        source.applied = max(each.event_id for each in loads.values())
        assert {name: source.type_on_target(name) for name in ("sales", "parts")} == dict.fromkeys(
            ("sales", "parts"), ("EXTERNAL_TABLE", TRANSLATED)
        )
        assert not any(source.differences().values())


def test_with_a_base_for_external_tables_the_target_still_places_managed_ones(
    old_metastore: OldMetastore, target: ClusterEndpoints
) -> None:
    base = f"{target.external}/base_{uuid.uuid4().hex[:8]}"
    with closing(Source(old_metastore, target, base=str(parse_location(base)))) as source:
        source.create_partitioned("parts", "a", "b")
        source.create("sales", "1\n")
        source.create("outside", "2\n", external=True)
        source.follow()
        alter_partition(source)
        source.alter("parts", new_name="pieces")
        source.follow()
        db = source.replica.policy.target_db
        places = {
            name: source.replica.target.get_table(db, name).sd.location or ""
            for name in ("pieces", "sales", "outside")
        }
        assert [name for name, place in places.items() if place.startswith(str(parse_location(base)))] == [
            "outside"
        ]
        assert not any(source.differences().values())


@pytest.fixture(scope="module")
def untranslating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a metastore of Hive 4.2 that leaves plain managed tables as they are."""
    settings = ClusterSettings(extra={"metastore.metadata.transformer.class": " "})
    server = HiveMetastore(tmp_path_factory.mktemp("target"), settings=settings)
    with start_or_skip("metastore without translation"):
        server.start()
    yield server.uri
    server.stop()


def test_a_target_that_translates_nothing_keeps_managed_tables_managed(
    old_metastore: OldMetastore, target: ClusterEndpoints, untranslating: str
) -> None:
    with closing(Source(old_metastore, replace(target, metastore=untranslating))) as source:
        source.create("sales", "1\n2\n")
        source.create_partitioned("parts", "a", "b")
        source.follow()
        for change in CHANGES.values():
            change(source)
            source.follow()
        for name in source.replica.source.table_names(source.db):
            assert source.type_on_target(name) == ("MANAGED_TABLE", {})
        assert not any(source.differences().values())
        assert source.replica.quarantined() == {}
