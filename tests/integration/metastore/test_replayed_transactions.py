"""What a real target does with replayed transactions that are repeated, late, unknown or of another
policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.transactions import TxnInfo, TxnState
from state.errors import ServerFault
from state.transactions.valid_write_ids import ValidWriteIds


NewTxn = Callable[[], int]
DELTA = "delta_0000001_0000001_0000"


@pytest.fixture
def table(client: WritingMetastore, db: str) -> str:
    client.create_table(a_table(db, "t", parameters=ACID))
    return f"{db}.t"


def ids(client: WritingMetastore, table: str) -> ValidWriteIds:
    (found,) = client.valid_write_ids([table])
    return found


def state(client: WritingMetastore, target_txn: int) -> TxnInfo | None:
    return next((txn for txn in client.open_txns_info().open_txns if txn.id == target_txn), None)


def write(db: str, table: str = "t", *, file: str = "bucket_00000_0") -> WriteEventInfo:
    files = f"file:/source/t/{DELTA}/{file}#abc#file:/cm#{DELTA}"
    return WriteEventInfo(writeId=1, database=db, table=table, files=files, partition="")


def test_the_same_source_transaction_opens_once(
    client: WritingMetastore, policy: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    first = client.open_replayed(policy, txn)
    assert client.open_replayed(policy, txn) == first
    info = state(client, first)
    assert info is not None
    assert info.state == TxnState.OPEN
    client.abort_replayed(policy, txn)


def test_two_policies_map_the_same_source_id_separately(
    client: WritingMetastore, policy: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    assert client.open_replayed(policy, txn) != client.open_replayed(f"other_{policy}", txn)
    client.abort_replayed(policy, txn)
    client.abort_replayed(f"other_{policy}", txn)


def test_a_write_id_is_allocated_as_requested_and_repeatedly(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    client.open_replayed(policy, txn)
    assert client.allocate_replayed(policy, db, "t", txn, 7) == 7
    assert client.allocate_replayed(policy, db, "t", txn, 7) == 7
    assert client.allocate_replayed(policy, db, "t", txn, 8) == 7
    assert client.allocate_replayed(policy, db, "t", txn, 8, reallocate=True) == 8
    client.abort_replayed(policy, txn)


def test_an_allocation_for_an_unknown_transaction_returns_nothing(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    assert client.allocate_replayed(policy, db, "t", source_txn(), 1) is None


def test_a_commit_takes_effect_may_be_repeated_and_a_later_abort_does_nothing(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    assert ids(client, table) == ValidWriteIds(table, 1, open=(1,))
    client.commit_replayed(policy, txn, [])
    assert ids(client, table) == ValidWriteIds(table, 1)
    client.commit_replayed(policy, txn, [])
    client.abort_replayed(policy, txn)
    assert ids(client, table) == ValidWriteIds(table, 1)
    assert client.allocate_replayed(policy, db, "t", txn, 1) is None


def test_an_abort_takes_effect_may_be_repeated_and_a_later_commit_does_nothing(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    client.abort_replayed(policy, txn)
    assert ids(client, table) == ValidWriteIds(table, 1, aborted=(1,))
    client.abort_replayed(policy, txn)
    client.commit_replayed(policy, txn, [])
    assert ids(client, table) == ValidWriteIds(table, 1, aborted=(1,))


def test_commits_and_aborts_of_unknown_transactions_succeed(
    client: WritingMetastore, policy: str, source_txn: NewTxn
) -> None:
    client.commit_replayed(policy, source_txn(), [])
    client.abort_replayed(policy, source_txn())


def test_a_commit_under_another_policy_succeeds_and_commits_nothing(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    client.commit_replayed(f"other_{policy}", txn, [])
    assert ids(client, table).open == (1,)
    client.abort_replayed(policy, txn)


def test_an_open_after_the_commit_opens_another_transaction_and_moves_the_write_id_back(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    first = client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    client.commit_replayed(policy, txn, [])
    assert client.open_replayed(policy, txn) != first
    assert client.allocate_replayed(policy, db, "t", txn, 1) == 1
    assert ids(client, table).open == (1,)
    client.abort_replayed(policy, txn)


def test_an_open_after_an_abort_opens_another_transaction_that_commits(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    """One that was opened ahead and is not needed is aborted; its table may be released and resume from
    before it."""
    txn = source_txn()
    first = client.open_replayed(policy, txn)
    client.abort_replayed(policy, txn)
    assert client.open_replayed(policy, txn) != first
    assert client.allocate_replayed(policy, db, "t", txn, 1) == 1
    client.commit_replayed(policy, txn, [])
    assert ids(client, table) == ValidWriteIds(table, 1)


def test_a_gap_in_write_ids_is_accepted(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    client.open_replayed(policy, txn)
    assert client.allocate_replayed(policy, db, "t", txn, 10) == 10
    client.commit_replayed(policy, txn, [])
    assert ids(client, table) == ValidWriteIds(table, 10)


def test_a_commit_with_a_missing_file_or_table_fails_and_the_transaction_stays_open(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    opened = client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    for missing in (write(db), write(db, "nowhere")):
        with pytest.raises(ServerFault) as failed:
            client.commit_replayed(policy, txn, [missing])
        assert failed.value.context["call"] == "commit_txn"
    assert state(client, opened) is not None
    location = client.get_table(db, "t").sd.location
    assert location is not None
    directory = Path(location.removeprefix("file:")) / DELTA
    directory.mkdir(parents=True)
    (directory / "bucket_00000_0").write_bytes(b"rows")
    client.commit_replayed(policy, txn, [write(db)])
    client.commit_replayed(policy, txn, [write(db)])
    assert ids(client, table) == ValidWriteIds(table, 1)


def test_open_transactions_of_a_policy_are_listed(
    client: WritingMetastore, policy: str, source_txn: NewTxn
) -> None:
    one, two = source_txn(), source_txn()
    opened = {txn: client.open_replayed(policy, txn) for txn in (one, two)}
    assert client.replayed_txns(policy) == opened
    client.commit_replayed(policy, one, [])
    assert client.replayed_txns(policy) == {two: opened[two]}
    client.abort_replayed(policy, two)
    assert client.replayed_txns(policy) == {}
    assert client.replayed_txns("no such policy") == {}


def test_an_abort_outside_of_replay_marks_the_database_as_incompatible(
    client: WritingMetastore, policy: str, db: str, table: str, source_txn: NewTxn
) -> None:
    txn = source_txn()
    opened = client.open_replayed(policy, txn)
    client.allocate_replayed(policy, db, "t", txn, 1)
    client.abort_txn(opened)
    assert (client.get_database(db).parameters or {}).get("repl.incompatible") == "true"
    assert client.replayed_txns(policy) == {}


def test_a_table_without_write_ids_takes_over_those_of_its_source(
    client: WritingMetastore, db: str, table: str
) -> None:
    client.repl_table_write_ids(db, "t", ValidWriteIds(table, 9, aborted=(4, 5)).format())
    taken = ids(client, table)
    assert taken == ValidWriteIds(table, 4, aborted=(4,))  # told short: nothing but invalid ids is there
    assert taken.may_be_cut
    assert client.highest_write_id(db, "t") == 9
    client.repl_table_write_ids(db, "t", ValidWriteIds(table, 20).format())
    assert client.highest_write_id(db, "t") == 9
