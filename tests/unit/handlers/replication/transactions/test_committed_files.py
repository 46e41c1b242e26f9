"""Files under committed write ids are never removed or replaced; others never get files under ids that are
not allocated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handlers.events import Event, SourceFile
from handlers.replication.position import progress
from handlers.replication.transactions import target_write_ids
from handlers.replication.transactions import transaction_replay as transactions
from handlers.replication.transactions.copies import transaction_files
from handlers.replication.transactions.target_write_ids import find_state, require_committed
from handlers.structs.notifications import WriteEventInfo
from state.errors import MalformedEvent, ServerFault, TargetDiverged
from state.store.memory import MemoryStore
from state.transactions.unproven_commits import UnprovenCommit
from state.transactions.valid_write_ids import ValidWriteIds, WriteIdState
from tests.builders.replication.fake_target import FakedReplica, Killed
from tests.builders.replication.replay_events import allocated, committed, created, written


FILE = "orders/delta_0000001_0000001_0000/bucket_00000_0"
AFTER_COMMIT = {
    "replay.after-commit": transactions,
    "replay.before-proof": transactions,
    "replay.after-proof": transactions,
    "replay.before-position": progress,
}


def unverifiable(file: SourceFile) -> SourceFile:
    """Return the file as S3 and HDFS name it: without a checksum that can be verified."""
    return SourceFile(file.uri, None, None, file.subdir)


def insert(file: SourceFile) -> list[Event]:
    return [written(3, file, part=0, parts=2), committed(3, part=1, parts=2)]


def kill_at(monkeypatch: pytest.MonkeyPatch, name: str, replica: FakedReplica) -> None:
    """Kill the process at the first pass through a failpoint after a commit, and let nothing run after it."""

    def die(reached: str) -> None:
        if replica.target.dead or (reached == name and replica.target.commits):
            replica.target.dead = True
            raise Killed

    for module in (transactions, target_write_ids, transaction_files, progress):
        monkeypatch.setattr(module, "failpoint", die)


def run_killed(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, killed_at: str, events: list[Event]
) -> None:
    """Apply ``events`` in a process that is killed, and start the next one."""
    with monkeypatch.context() as patched:
        kill_at(patched, killed_at, replica)
        with pytest.raises(Killed):
            replica.projection.apply(events)
    replica.target.killed_at(None)
    replica.restart()


def compact_away(file: SourceFile) -> None:
    path_of(file).unlink()


def replace_content(file: SourceFile) -> None:
    path_of(file).write_bytes(b"ROWS")


def keep(_file: SourceFile) -> None:
    pass


def path_of(file: SourceFile) -> Path:
    return Path(file.uri.removeprefix("file:"))


@pytest.mark.parametrize("killed_at", AFTER_COMMIT)
@pytest.mark.parametrize("change", [compact_away, replace_content, keep])
def test_files_of_a_commit_whose_record_is_missing_stay_as_they_are(
    replica: FakedReplica,
    monkeypatch: pytest.MonkeyPatch,
    killed_at: str,
    change: Callable[[SourceFile], None],
) -> None:
    file = unverifiable(replica.file())
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    run_killed(replica, monkeypatch, killed_at, insert(file))
    assert replica.stored_position() == 2
    change(file)
    replica.projection.apply(insert(file))
    assert replica.files_on_target() == [FILE]
    assert (replica.target.warehouse / FILE).read_bytes() == b"rows"
    assert replica.stored_quarantine() == {}
    assert replica.stored_position() == 3


@pytest.mark.parametrize("killed_at", AFTER_COMMIT)
def test_a_commit_without_its_lost_files_is_not_taken_for_complete_by_the_next_run(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, killed_at: str
) -> None:
    file = unverifiable(replica.file())
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    compact_away(file)
    run_killed(replica, monkeypatch, killed_at, insert(file))
    replica.projection.apply(insert(file))
    assert replica.stored_quarantine() == {"orders": "file-lost"}
    assert replica.files_on_target() == []


def test_files_that_were_lost_before_the_commit_quarantine_their_table(replica: FakedReplica) -> None:
    present, lost = unverifiable(replica.file()), unverifiable(replica.file("bucket_00001_0"))
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    compact_away(lost)
    replica.projection.apply(
        [
            written(3, present, part=0, parts=3),
            written(3, lost, part=1, parts=3),
            committed(3, part=2, parts=3),
        ]
    )
    assert replica.stored_quarantine() == {"orders": "file-lost"}
    assert replica.files_on_target() == [], "the files of a partial write are removed while its id is open"


def test_files_that_the_relay_has_listed_and_that_are_gone_since_have_the_table_loaded(
    replica: FakedReplica,
) -> None:
    lost = unverifiable(replica.file())
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    compact_away(lost)
    replica.projection.apply([written(3, lost, parts=2, listed=True), committed(3, part=1, parts=2)])
    assert waits_because(replica).startswith("[unlogged-files-gone] the source file is gone")
    assert replica.files_on_target() == []


def waits_because(replica: FakedReplica) -> str:
    """Return why the table is loaded again; "" if it is not."""
    assert replica.stored_quarantine() == {}
    load = replica.context.tables.loads.get("orders")
    return "" if load is None else load.cause or ""


def test_a_write_whose_files_may_be_incomplete_has_the_table_loaded_with_the_reason(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.apply(
        [
            written(3, replica.file(), parts=3),
            written(3, part=1, parts=3, listed=True, incomplete="it was compacted"),
            committed(3, part=2, parts=3),
        ]
    )
    assert "it was compacted" in waits_because(replica)
    assert replica.files_on_target() == [], "a part of the write is not shown"


def test_an_incomplete_write_that_the_target_has_committed_already_needs_no_load(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The relay was restarted meanwhile, and a compaction has replaced the files."""
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    run_killed(replica, monkeypatch, "replay.after-commit", insert(unverifiable(replica.file())))
    again = [written(3, parts=2, listed=True, incomplete="it was compacted"), committed(3, part=1, parts=2)]
    replica.projection.apply(again)
    assert waits_because(replica) == ""
    assert replica.files_on_target() == [FILE]


def test_a_commit_whose_writes_the_relay_does_not_know_has_its_tables_loaded(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.apply([replace(committed(3, enriched=False), incomplete="it began earlier")])
    assert "it began earlier" in waits_because(replica)


def test_a_quarantined_table_keeps_the_committed_files_of_a_repeated_event(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = unverifiable(replica.file())
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    run_killed(replica, monkeypatch, "replay.after-commit", insert(file))
    replica.context.tables.quarantine.add("orders", 2, MalformedEvent("broken"))
    replica.projection.apply(insert(file))
    assert replica.files_on_target() == [FILE]


def test_a_failing_commit_that_took_effect_costs_no_files(replica: FakedReplica) -> None:
    """The target answers with an internal error although it has committed."""
    file = replica.file()
    replica.projection.apply([created(1), allocated(2, 1, 1), written(3, file, part=0, parts=2)])
    replica.context.copies.wait(
        [h for w in replica.projection._transactions.files._pending[1].writes for h in w.handles]
    )
    replica.target._txns.clear()
    replica.projection._transactions.commit_without_files(committed(3), ServerFault("internal error"))
    assert replica.files_on_target() == [FILE]


def test_files_of_a_write_id_that_was_never_allocated_are_not_copied(replica: FakedReplica) -> None:
    """They would become visible with the transaction that gets the id later."""
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.apply(
        [
            written(3, replica.file(write_id=9), txn_id=1, write_id=9, part=0, parts=2),
            committed(3, part=1, parts=2),
        ]
    )
    assert replica.files_on_target() == []


def test_without_state_files_of_a_write_id_that_the_target_has_not_allocated_quarantine_their_table(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.restart(store=MemoryStore())
    replica.projection.apply([written(2, replica.file(), part=0, parts=2), committed(2, part=1, parts=2)])
    assert replica.files_on_target() == []
    assert replica.stored_quarantine() == {"orders": "target-diverged"}


def test_without_state_files_are_copied_if_the_target_has_their_write_id_open(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.settle()
    replica.restart(store=MemoryStore())
    replica.projection.apply(insert(replica.file()))
    assert replica.files_on_target() == [FILE]
    assert replica.target.open_txns == []


def test_without_state_a_commit_that_the_target_has_is_complete(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = unverifiable(replica.file())
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.settle()
    with monkeypatch.context() as patched:
        kill_at(patched, "replay.after-commit", replica)
        with pytest.raises(Killed):
            replica.projection.apply(insert(file))
    replica.target.killed_at(None)
    compact_away(file)
    replica.restart(store=MemoryStore())
    replica.projection.apply(insert(file))
    assert replica.files_on_target() == [FILE]
    assert replica.stored_quarantine() == {}


def sent(write_id: int) -> UnprovenCommit:
    return UnprovenCommit(1, 1001, {"shop.orders": write_id})


LISTS = [
    (ValidWriteIds("shop_r.orders", 5), True),
    (ValidWriteIds("shop_r.orders", 5, open=(5,)), False),
    (ValidWriteIds("shop_r.orders", 5, aborted=(5,)), False),
    (ValidWriteIds("shop_r.orders", 4), False),
    (ValidWriteIds("shop_r.orders", 2, open=(2,)), False),
]


@pytest.mark.parametrize(("valid", "proven"), LISTS)
def test_a_commit_is_proven_only_by_a_visible_write_id(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, *, valid: ValidWriteIds, proven: bool
) -> None:
    monkeypatch.setattr(replica.target, "valid_write_ids", lambda _tables: [valid])
    if proven:
        require_committed(replica.context, [sent(5)])
        return
    with pytest.raises(TargetDiverged, match="did not commit"):
        require_committed(replica.context, [sent(5)])


@pytest.mark.parametrize("is_open", [False, True])
def test_a_list_that_is_cut_below_the_write_id_is_decided_by_the_transaction(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, *, is_open: bool
) -> None:
    cut = ValidWriteIds("shop_r.orders", 2, open=(2,))
    monkeypatch.setattr(replica.target, "valid_write_ids", lambda _tables: [cut])
    monkeypatch.setattr(replica.target, "highest_write_id", lambda *_: 5)
    if is_open:
        replica.target.open_replayed("shop_r.*", 1)
    expected = WriteIdState.OPEN if is_open else WriteIdState.VISIBLE
    assert find_state(replica.context, "orders", 5, 1) is expected


def test_the_commit_names_no_files_of_a_table_that_is_already_committed(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = unverifiable(replica.file())
    silent: list[int] = []
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    run_killed(replica, monkeypatch, "replay.after-commit", insert(file))
    observer: Any = replica.context.observer
    monkeypatch.setattr(type(observer), "commit_without_writes", lambda _self, txn: silent.append(txn))
    replica.projection.apply(insert(file))
    first, second = replica.target.commits
    assert [type(write) for write in first[1]] == [WriteEventInfo]
    assert second == (1, [])
    assert silent == [], "it has files"
