"""The notification log, write events, own transactions and compactions on a real Hive 4."""

from __future__ import annotations

from pathlib import Path

import pytest

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.structs.notifications import InsertEventRequestData
from handlers.structs.transactions import TxnState
from state.errors import TxnNotOpen
from state.transactions.valid_write_ids import ValidWriteIds


def test_events_after_an_id_have_contiguous_ids(client: WritingMetastore, db: str) -> None:
    before = client.current_event_id()
    client.create_table(a_table(db, "t", external=True))
    client.drop_table(db, "t")
    events = client.next_events(before, 1000)
    assert [event.eventId for event in events] == list(range(before + 1, before + 1 + len(events)))
    ours = [event.eventType for event in events if event.dbName == db]
    assert ours == ["CREATE_TABLE", "DROP_TABLE"]
    assert [e.eventId for e in client.next_events(before, 1)] == [before + 1]
    assert client.next_events(client.current_event_id() + 1000, 10) == []


def test_write_events_of_a_transaction_are_available_after_its_commit(
    client: WritingMetastore, db: str
) -> None:
    client.create_table(a_table(db, "t", parameters=ACID))
    place = str(client.get_table(db, "t").sd.location)
    (txn,) = client.open_txns()
    write_id = client.allocate_write_ids(db, "t", [txn])[txn]
    delta = f"delta_{write_id:07}_{write_id:07}_0000"
    Path(place.removeprefix("file:"), delta).mkdir(parents=True)
    written = InsertEventRequestData(
        filesAdded=[f"{place}/{delta}/bucket_00000_0"], filesAddedChecksum=["abc"], subDirectoryList=[delta]
    )
    client.add_write_notification(txn, write_id, db, "t", written)
    client.commit_txn(txn)
    (event,) = client.write_events(txn)
    assert (event.writeId, event.database, event.table, event.partition) == (write_id, db, "t", "")
    assert event.files.startswith(f"{place}/{delta}/bucket_00000_0#abc#")
    assert event.files.endswith(f"#{delta}")
    assert client.write_events(txn + 1_000_000_000) == []


def test_a_reported_insert_into_a_plain_table_is_logged(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", external=True))
    place = str(client.get_table(db, "t").sd.location)
    Path(place.removeprefix("file:")).mkdir(parents=True, exist_ok=True)
    before = client.current_event_id()
    written = InsertEventRequestData(
        replace=False, filesAdded=[f"{place}/000000_0"], filesAddedChecksum=["abc"]
    )
    ids = client.fire_insert_event(db, "t", written)
    inserts = [e for e in client.next_events(before, 1000) if e.eventType == "INSERT" and e.dbName == db]
    assert [e.eventId for e in inserts] == ids


def test_a_transaction_is_open_then_committed_or_aborted(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", parameters=ACID))
    one, two = client.open_txns(2)
    assert client.newest_txn_id() >= two
    assert client.allocate_write_ids(db, "t", [one, two]) == {one: 1, two: 2}
    client.heartbeat(one)
    open_now = {txn.id for txn in client.open_txns_info().open_txns if txn.state == TxnState.OPEN}
    assert {one, two} <= open_now
    client.commit_txn(one)
    client.abort_txn(two)
    assert client.valid_write_ids([f"{db}.t"]) == [ValidWriteIds(f"{db}.t", 2, aborted=(2,))]
    assert client.highest_write_id(db, "t") == 2
    with pytest.raises(TxnNotOpen):
        client.heartbeat(two)
    with pytest.raises(TxnNotOpen):
        client.commit_txn(two)
    with pytest.raises(TxnNotOpen) as unknown:
        client.commit_txn(1_000_000_000_000)
    assert unknown.value.context["hive"] == "NoSuchTxnException"


def test_write_id_lists_are_returned_in_the_requested_order(client: WritingMetastore, db: str) -> None:
    tables = [f"{db}.b", f"{db}.a", f"{db}.nowhere"]
    client.create_table(a_table(db, "a", parameters=ACID))
    client.create_table(a_table(db, "b", parameters=ACID))
    assert [ids.table for ids in client.valid_write_ids(tables)] == tables


def test_a_second_compaction_of_the_same_table_is_not_accepted(client: WritingMetastore, db: str) -> None:
    client.create_table(a_table(db, "t", parameters=ACID))
    (txn,) = client.open_txns()
    client.allocate_write_ids(db, "t", [txn])
    client.commit_txn(txn)
    assert client.compact(db, "t").accepted
    again = client.compact(db, "t")
    assert not again.accepted or again.state != "initiated"
    assert any(item.dbname == db and item.tablename == "t" for item in client.show_compactions())
