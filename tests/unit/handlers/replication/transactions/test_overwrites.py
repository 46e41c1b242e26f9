"""Bases of overwrites: their names on the target let readers see them with the commit, and none is left
behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from handlers.events import Event, SourceFile
from handlers.replication.transactions import transaction_replay as transactions
from handlers.replication.transactions.copies import transaction_files
from handlers.replication.transactions.copies.base_names import find_bases, rename_in_entry
from state.errors import FileLost
from state.store.memory import MemoryStore
from tests.builders.replication.fake_target import FakedReplica, Killed
from tests.builders.replication.replay_events import allocated, committed, created, written


NAMES = ("bucket_00000_0", "bucket_00001_0")
TARGET_TXN = 1001
BASE = f"base_0000001_v000{TARGET_TXN}"
INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}


def write_overwrite(
    replica: FakedReplica, names: tuple[str, ...] = NAMES, write_id: int = 1
) -> list[SourceFile]:
    return [replica.file(name, overwrites=True, write_id=write_id) for name in names]


def transaction(files: list[SourceFile], event_id: int = 3, txn_id: int = 1) -> list[Event]:
    """Return the events of a commit; its write id is that of its transaction."""
    parts = len(files) + 1
    return [
        *(
            written(event_id, file, txn_id=txn_id, write_id=txn_id, part=part, parts=parts)
            for part, file in enumerate(files)
        ),
        committed(event_id, txn_id, part=parts - 1, parts=parts),
    ]


def directories(replica: FakedReplica) -> list[str]:
    return sorted(each.name for each in (replica.target.warehouse / "orders").iterdir())


def test_a_base_is_named_after_the_targets_transaction_also_in_the_commit(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.apply(transaction(write_overwrite(replica)))
    assert replica.files_on_target() == [f"orders/{BASE}/{name}" for name in NAMES]
    ((_, (event,)),) = replica.target.commits
    assert [entry.rpartition("#")[2] for entry in (event.files or "").split("]")] == [BASE, BASE]


def test_a_base_has_no_suffix_while_an_older_write_of_the_table_is_open(replica: FakedReplica) -> None:
    """Readers would not see it after its commit. It is not copied early, because the older write may end
    first."""
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    replica.projection.apply(transaction(write_overwrite(replica, write_id=2), 4, txn_id=2))
    assert directories(replica) == ["base_0000002"]


def test_a_base_has_a_suffix_if_the_older_write_ends_before_its_turn(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    files = write_overwrite(replica, write_id=2)
    replica.projection.apply([committed(4), *transaction(files, 5, txn_id=2)])
    assert directories(replica) == ["base_0000002_v0001002"]


@pytest.mark.parametrize(
    ("parameters", "name", "base"),
    [
        ({"transactional": "true"}, "000000_0", "base_0000001"),
        ({"transactional": "true"}, "bucket_00000_0", BASE),
        (INSERT_ONLY, "000000_0", BASE),
    ],
    ids=["loaded into an ACID table", "written into an ACID table", "insert-only"],
)
def test_files_without_row_ids_in_an_acid_table_are_in_a_base_without_suffix(
    replica: FakedReplica, parameters: dict[str, str], name: str, base: str
) -> None:
    replica.projection.apply([created(1, parameters=parameters), allocated(2, 1, 1)])
    replica.projection.apply(transaction(write_overwrite(replica, (name,))))
    assert directories(replica) == [base]


@pytest.mark.parametrize("step", ["replay.after-copies", "replay.before-commit", "replay.after-commit"])
@pytest.mark.parametrize("lost", [False, True], ids=["state kept", "state lost"])
def test_an_overwrite_whose_process_is_killed_ends_with_one_base(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch, step: str, *, lost: bool
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    replica.projection.settle()
    events = transaction(write_overwrite(replica))

    def die(name: str) -> None:
        if name == step:
            replica.target.dead = True
            raise Killed

    with monkeypatch.context() as patched:
        for module in (transaction_files, transactions):
            patched.setattr(module, "failpoint", die)
        with pytest.raises(Killed):
            replica.projection.apply(events)
    replica.target.killed_at(None)
    replica.restart(store=MemoryStore() if lost else None)
    replica.projection.apply(events)
    assert replica.files_on_target() == [f"orders/{BASE}/{name}" for name in NAMES]
    assert replica.stored_quarantine() == {}


@pytest.mark.parametrize("older_open", [False, True])
def test_files_that_a_killed_run_copied_under_the_other_name_are_removed(
    replica: FakedReplica, *, older_open: bool
) -> None:
    """Otherwise readers could choose that base after the commit, without the files that were not copied."""
    replica.projection.apply([created(1), allocated(2, 1, 1), allocated(3, 2, 2)])
    suffixed, plain = "base_0000002_v0001002", "base_0000002"
    left = replica.target.warehouse / "orders" / (suffixed if older_open else plain)
    left.mkdir(parents=True)
    (left / NAMES[0]).write_bytes(b"rows")
    if not older_open:
        replica.projection.apply([committed(4)])
    replica.projection.apply(transaction(write_overwrite(replica, write_id=2), 5, txn_id=2))
    assert directories(replica) == [plain if older_open else suffixed]


def test_an_overwrite_that_lost_a_file_leaves_no_file(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    files = write_overwrite(replica)
    Path(files[1].uri.removeprefix("file:")).unlink()
    replica.projection.apply(transaction(files))
    assert replica.stored_quarantine() == {"orders": "file-lost"}
    assert replica.files_on_target() == []


@pytest.mark.parametrize("name", [BASE, "base_0000001"])
def test_a_base_that_a_killed_process_copied_is_removed_if_its_table_is_quarantined(
    replica: FakedReplica, name: str
) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    files = write_overwrite(replica)
    directory = replica.target.warehouse / "orders" / name
    directory.mkdir(parents=True)
    (directory / NAMES[0]).write_bytes(b"rows")
    replica.context.tables.quarantine.add("orders", 2, FileLost("gone"))
    replica.projection.apply(transaction(files))
    assert replica.files_on_target() == []


def test_only_the_base_of_a_path_gets_the_suffix() -> None:
    entry = "file:/base_1/t/base_0000005/sub#md5#file:/cm#base_0000005/HIVE_UNION_SUBDIR_1"
    assert rename_in_entry(entry, "_v0000010") == (
        "file:/base_1/t/base_0000005/sub#md5#file:/cm#base_0000005_v0000010/HIVE_UNION_SUBDIR_1"
    )
    delta = "file:/t/delta_0000005_0000005_0001/f###delta_0000005_0000005_0001"
    assert rename_in_entry(delta, "_v0000010") == delta


def test_the_branches_of_a_union_have_a_base_each_or_share_one() -> None:
    subdirs = [
        "HIVE_UNION_SUBDIR_1/base_0000005",
        "HIVE_UNION_SUBDIR_2/base_0000005",
        "base_0000005/HIVE_UNION_SUBDIR_1",
        "base_0000005/HIVE_UNION_SUBDIR_2",
        "delta_0000005_0000005_0001",
    ]
    files = [SourceFile("file:/source/000000_0", subdir=subdir) for subdir in subdirs]
    assert find_bases(files, "file:/base_1/t", "_v0000010") == {
        "file:/base_1/t/HIVE_UNION_SUBDIR_1/base_0000005_v0000010",
        "file:/base_1/t/HIVE_UNION_SUBDIR_2/base_0000005_v0000010",
        "file:/base_1/t/base_0000005_v0000010",
    }
