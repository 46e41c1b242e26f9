"""Tables that are renamed, dropped or created again while a transaction writes into them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from handlers.events import TableCreated
from state.errors import InvalidRequest
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import (
    aborted,
    allocated,
    altered,
    committed,
    created,
    dropped,
    written,
)


@pytest.mark.parametrize("restarts", [False, True])
def test_files_of_a_table_that_was_renamed_since_go_to_its_new_name(
    replica: FakedReplica, *, restarts: bool
) -> None:
    file = replica.file()
    replica.projection.apply([created(1), allocated(2, 1, 1), altered(3, new_name="archive")])
    if restarts:
        replica.projection.open()
    replica.projection.apply([written(4, file, part=0, parts=2), committed(4, part=1, parts=2)])
    ((_, (sent,)),) = replica.target.commits
    assert sent.table == "archive"
    assert replica.files_on_target() == [f"archive/{file.subdir}/bucket_00000_0"]
    assert replica.context.tables.quarantine.entries() == ()


def test_files_of_two_tables_that_had_the_same_name_are_told_apart_by_the_write_id(
    replica: FakedReplica,
) -> None:
    old, new = replica.file(write_id=1), replica.file(write_id=2)
    replica.projection.apply(
        [
            created(1),
            allocated(2, 1, 1),
            altered(3, new_name="archive"),
            created(4),
            allocated(5, 2, 1),
            committed(6, txn_id=2),
            allocated(7, 1, 2),
            written(8, old, write_id=1, part=0, parts=3),
            written(8, new, write_id=2, part=1, parts=3),
            committed(8, part=2, parts=3),
        ]
    )
    assert [(w.table, w.writeId) for w in replica.target.commits[-1][1]] == [("archive", 1), ("orders", 2)]


def test_files_of_a_table_that_was_dropped_since_are_skipped_and_quarantine_nothing(
    replica: FakedReplica,
) -> None:
    file = replica.file()
    replica.projection.apply([created(1), allocated(2, 1, 1), dropped(3)])
    replica.projection.apply([written(4, file, part=0, parts=2), committed(4, part=1, parts=2)])
    assert replica.target.commits == [(1, [])]
    replica.projection.apply([created(5), allocated(6, 2, 1), committed(7, txn_id=2)])
    assert list(replica.target.tables) == ["orders"]
    assert replica.context.tables.quarantine.entries() == ()


def test_files_of_a_dropped_table_do_not_enter_a_new_table_of_the_same_name(replica: FakedReplica) -> None:
    file = replica.file()
    replica.projection.apply([created(1), allocated(2, 1, 1), dropped(3), created(4)])
    replica.projection.apply([written(5, file, part=0, parts=2), committed(5, part=1, parts=2)])
    assert replica.files_on_target() == []
    assert replica.target.commits == [(1, [])]


def test_a_create_table_ends_the_quarantine_of_a_table_that_exists_on_neither_side(
    replica: FakedReplica,
) -> None:
    replica.target.fails("create_table", _failure())
    replica.projection.apply([created(1)])
    assert list(replica.stored_quarantine()) == ["orders"]
    replica.projection.apply([created(2), allocated(3, 1, 1), committed(4)])
    assert replica.stored_quarantine() == {}
    assert list(replica.target.tables) == ["orders"]


def test_further_parts_of_a_create_table_that_failed_do_not_end_its_quarantine(replica: FakedReplica) -> None:
    replica.target.fails("create_table", _failure())
    replica.projection.apply([_part(0), _part(1)])
    assert list(replica.stored_quarantine()) == ["orders"]


def test_a_repeated_allocation_whose_id_was_replaced_later_does_not_reallocate(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.allocate_replayed("", "", "orders", 1, 6)
    replica.target.allocations.clear()
    replica.projection.apply([allocated(2, 1, 5), allocated(3, 1, 6), committed(4)])
    assert replica.target.allocations == [(1, 5, False), (1, 6, False)]
    assert replica.context.tables.quarantine.entries() == ()


def test_after_an_abort_a_higher_id_on_the_target_is_forgotten(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.answers["allocate_replayed"] = [6]
    replica.projection.apply([allocated(2, 1, 5), aborted(3), committed(4)])
    assert replica.context.tables.quarantine.entries() == ()


def _failure() -> InvalidRequest:
    return InvalidRequest("the target rejects the table")


def _part(part: int) -> TableCreated:
    return replace(created(1), part=part, parts=2)
