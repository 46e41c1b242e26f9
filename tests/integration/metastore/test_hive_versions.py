"""The same client on real metastores of Hive 2.3 and 3.1:
their calls work, and missing ones raise Unsupported.

They are started here (some 10 s each) and not by the stack, since nothing else needs them.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dev.fixtures.hive_tables import a_partition, a_table, whole_number_statistics
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.hive.old_metastore import OldMetastore
from handlers.metastore.calls import HiveVersion, PlainCall
from handlers.structs.constraints import PRIMARY_KEY, UNIQUE, SQLPrimaryKey, SQLUniqueConstraint
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.objects import Database
from state.errors import AlreadyExists, InvalidRequest, NotFound, ServerFault, TxnNotOpen, Unsupported
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.components.availability import start_or_skip


pytestmark = pytest.mark.old_hive

V2_3, V3_1 = HiveVersion(2, 3), HiveVersion(3, 1)
KEEP = {"DO_NOT_UPDATE_STATS": "true"}


@pytest.fixture(scope="module", params=["2.3", "3.1"])
def old(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OldMetastore]:
    server = OldMetastore(tmp_path_factory.mktemp("version"), request.param)
    with start_or_skip(f"metastore of Hive {request.param}"):
        server.start()
    yield server
    server.stop()


@pytest.fixture
def client(old: OldMetastore) -> Iterator[WritingMetastore]:
    with WritingMetastore(old.uri) as metastore:
        yield metastore


@pytest.fixture
def db(client: WritingMetastore, database: str) -> Iterator[str]:
    client.create_database(Database(name=database))
    yield database
    client.drop_database(database, cascade=True)


def test_the_hive_version_is_determined_although_both_answer_the_same(
    client: WritingMetastore, old: OldMetastore
) -> None:
    assert client._invoke(PlainCall("getVersion", str, changes=False)) == "3.0"
    assert str(client.hive_version) == old.name.removeprefix("hive-")


def test_databases_and_tables(client: WritingMetastore, db: str) -> None:
    database = client.get_database(db)
    client.alter_database(db, Database(name=db, locationUri=database.locationUri, parameters={"a": "1"}))
    assert client.get_database(db).parameters == {"a": "1"}
    client.create_table(a_table(db, "t", parameters={"x": "1"}))
    with pytest.raises(AlreadyExists):
        client.create_table(a_table(db, "t"))
    table = client.get_table(db, "t")
    table.tableName, table.parameters = "renamed", {**(table.parameters or {}), "x": "2"}
    client.alter_table(db, "t", table, environment=KEEP)
    assert client.table_names(db) == ["renamed"]
    assert [(t.parameters or {})["x"] for t in client.get_tables(db, ["renamed"])] == ["2"]
    with pytest.raises(Unsupported):
        client.alter_table(db, "renamed", table, expected=("x", "2"))
    client.drop_table(db, "renamed")
    with pytest.raises(NotFound):
        client.get_table(db, "renamed")


def test_partitions(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "p", partition_keys=["dt"]))
    table = client.get_table(db, "p")
    days = [a_partition(table, str(day)) for day in range(5)]
    client.add_partitions(db, "p", days)
    client.add_partitions(db, "p", days)
    with pytest.raises(AlreadyExists):
        client.add_partitions(db, "p", days, if_not_exists=False)
    assert [p.values for p in client.all_partitions(db, "p")] == [[str(day)] for day in range(5)]
    changed = client.get_partition(db, "p", ["1"])
    changed.parameters = {**(changed.parameters or {}), "x": "1"}
    client.alter_partitions(db, "p", [changed], environment=KEEP)
    changed.values = ["one"]
    client.rename_partition(db, "p", ["1"], changed)
    assert (client.get_partition_by_name(db, "p", "dt=one").parameters or {})["x"] == "1"
    client.drop_partition(db, "p", ["0"])
    with pytest.raises(NotFound):
        client.drop_partition(db, "p", ["0"])
    client.drop_partitions(db, "p", ["dt=2", "dt=nowhere"], if_exists=True)
    assert client.partition_names(db, "p") == ["dt=3", "dt=4", "dt=one"]


def test_listing_the_partitions_of_a_missing_table_raises_an_error_that_depends_on_the_version(
    client: WritingMetastore, db: str
) -> None:
    with pytest.raises((InvalidRequest, ServerFault)):
        client.partition_names(db, "nowhere")


def test_statistics(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "p", partition_keys=["dt"]))
    client.add_partitions(db, "p", [a_partition(client.get_table(db, "p"), "1")])
    client.create_table(a_table(db, "t"))
    client.update_table_statistics(whole_number_statistics(db, "t", "id", 5))
    client.update_partition_statistics(whole_number_statistics(db, "p", "id", 6, partition_name="dt=1"))
    (column,) = client.table_statistics(db, "t", ["id"])
    assert column.statsData.longStats is not None
    assert column.statsData.longStats.numDVs == 5
    assert list(client.partition_statistics(db, "p", ["dt=1"], ["id"])) == ["dt=1"]


def test_constraints(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t"))
    client.add_constraint(
        PRIMARY_KEY, [SQLPrimaryKey(table_db=db, table_name="t", column_name="id", key_seq=1, pk_name="pk")]
    )
    assert client.constraint_names(db, "t") == {"pk"}
    client.drop_constraint(db, "t", "pk")
    with pytest.raises(NotFound):
        client.drop_constraint(db, "t", "pk")
    unique = SQLUniqueConstraint(
        catName="hive", table_db=db, table_name="t", column_name="id", key_seq=1, uk_name="uk"
    )
    if client.hive_version < V3_1:
        with pytest.raises(Unsupported):
            client.add_constraint(UNIQUE, [unique])
    else:
        client.add_constraint(UNIQUE, [unique])
        assert client.constraint_names(db, "t") == {"uk"}


def test_the_notification_log(client: WritingMetastore, db: str) -> None:
    before = client.current_event_id()
    client.create_table(a_table(db, "t"))
    client.fire_insert_event(
        db, "t", InsertEventRequestData(filesAdded=["file:/x/000000_0"], filesAddedChecksum=["c"])
    )
    events = client.next_events(before, 100)
    assert [event.eventType for event in events if event.dbName == db] == ["CREATE_TABLE", "INSERT"]
    assert {event.messageFormat for event in events} == {"json-0.2"}
    assert "file:/x/000000_0" in events[-1].message
    assert [event.eventId for event in events] == list(range(before + 1, before + 1 + len(events)))
    with pytest.raises(Unsupported):
        client.write_events(1)


def test_transactions(client: WritingMetastore, db: str) -> None:
    one, two = client.open_txns(2)
    client.heartbeat(one)
    client.commit_txn(one)
    client.abort_txn(two)
    for closed in (one, two):
        with pytest.raises(TxnNotOpen):
            client.heartbeat(closed)
    assert client.newest_txn_id() >= two
    with pytest.raises(Unsupported):
        client.open_replayed("p.*", 1)


def test_write_ids(client: WritingMetastore, db: str) -> None:
    if client.hive_version < V3_1:
        with pytest.raises(Unsupported):
            client.allocate_write_ids(db, "t", [1])
        with pytest.raises(Unsupported):
            client.valid_write_ids([f"{db}.t"])
        return
    insert_only = {"transactional": "true", "transactional_properties": "insert_only"}
    client.create_table(a_table(db, "t", parameters=insert_only))
    txns = client.open_txns(3)
    assert list(client.allocate_write_ids(db, "t", txns).values()) == [1, 2, 3]
    client.commit_txn(txns[0])
    client.abort_txn(txns[1])
    assert client.valid_write_ids([f"{db}.t"]) == [ValidWriteIds(f"{db}.t", 3, open=(3,), aborted=(2,))]
    client.commit_txn(txns[2])
    client.truncate_table(db, "t")
