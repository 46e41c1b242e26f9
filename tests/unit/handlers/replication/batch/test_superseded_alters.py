from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from handlers.events import Event, StatisticsUpdated, TableAltered, TxnAborted, TxnCommitted
from handlers.replication.batch.merged_events import find_superseded_alters
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    altered,
    changed,
    committed,
    dropped,
    partitions_added,
    statistics,
)


def test_of_consecutive_alterations_only_the_last_is_applied() -> None:
    assert find_superseded_alters([altered(1), altered(2), altered(3)]) == {1, 2}


def test_an_allocation_in_between_changes_nothing() -> None:
    assert find_superseded_alters([altered(1), allocated(2, 7, 1), altered(3)]) == {1}


def test_alterations_of_two_transactions_are_both_applied_because_the_second_may_not_see_the_first() -> None:
    events = [altered(1, write_id=1), altered(2, write_id=1), altered(3, write_id=2), altered(4)]
    assert find_superseded_alters(events) == {1}


def test_alterations_of_different_tables_are_both_applied() -> None:
    assert find_superseded_alters([altered(1, "a"), altered(2, "b")]) == frozenset()


def test_an_alteration_before_a_commit_is_applied_because_the_commit_may_make_it_visible() -> None:
    assert find_superseded_alters([altered(1), committed(2), altered(3)]) == frozenset()


def test_an_alteration_before_an_abort_is_applied() -> None:
    assert find_superseded_alters([altered(1), aborted(2), altered(3)]) == frozenset()


def test_an_alteration_before_statistics_is_applied_because_they_refer_to_it() -> None:
    assert find_superseded_alters([altered(1), statistics(2), altered(3)]) == frozenset()


def test_an_alteration_that_makes_a_table_transactional_is_applied() -> None:
    plain, acid = a_table(parameters={}), a_table()
    events = [changed(1, plain, plain), changed(2, plain, acid), changed(3, acid, acid)]
    assert find_superseded_alters(events) == frozenset()


def test_a_rename_is_applied_and_supersedes_nothing() -> None:
    assert (
        find_superseded_alters([altered(1, "a"), altered(2, "a", new_name="b"), altered(3, "b")])
        == frozenset()
    )


def test_a_truncation_is_applied_and_supersedes_nothing() -> None:
    assert find_superseded_alters([altered(1), altered(2, truncate=True), altered(3)]) == frozenset()


def test_a_change_of_the_location_is_applied() -> None:
    moved = changed(2, a_table(), a_table(location="file:/source/elsewhere"))
    assert find_superseded_alters([altered(1), moved, altered(3)]) == frozenset()


_KINDS = (altered, committed, aborted, statistics, dropped, partitions_added)


@given(st.lists(st.tuples(st.sampled_from(_KINDS), st.sampled_from("ab")), max_size=12))
def test_no_event_could_tell_a_superseded_alteration_from_an_applied_one(
    choices: list[tuple[object, str]],
) -> None:
    events: list[Event] = []
    for number, (make, table) in enumerate(choices, start=1):
        events.append(make(number) if make in {committed, aborted} else make(number, table))  # type: ignore[operator]
    left_out = find_superseded_alters(events)
    for event in events:
        if event.event_id in left_out:
            assert isinstance(event, TableAltered)
            following = _next_that_sees(events, event)
            assert isinstance(following, TableAltered)
            assert following.table == event.table


def _next_that_sees(events: list[Event], event: Event) -> Event | None:
    """Return the first later event whose effect depends on whether ``event`` was applied."""
    for later in events:
        if later.event_id <= event.event_id:
            continue
        if isinstance(later, TxnCommitted | TxnAborted | StatisticsUpdated) and later.table in {
            None,
            event.table,
        }:
            return later
        if later.table == event.table:
            return later
    return None
