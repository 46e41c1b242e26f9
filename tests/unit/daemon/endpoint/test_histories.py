"""The check of histories finds what it must, so that a history without violations means something."""

from __future__ import annotations

from tests.builders.endpoint.histories import Change, History, Read


HISTORY = [Change("a", True, 1, 2), Change("a", False, 5, 6), Change("a", True, 9, 10)]


def read(found: bool, began_s: float, ended_s: float) -> Read:
    return Read(frozenset("a"), frozenset("a" if found else ""), began_s, ended_s)


def test_a_read_must_see_what_ended_before_it_and_may_see_what_overlaps_it() -> None:
    def is_violated(one: Read) -> bool:
        return bool(History(HISTORY, [one]).violations())

    assert is_violated(read(True, 0.1, 0.5)), "not added yet"
    assert not is_violated(read(True, 0.1, 1.5))
    assert not is_violated(read(False, 0.1, 1.5))
    assert is_violated(read(False, 3, 4)), "missed"
    assert not is_violated(read(True, 3, 4))
    assert not is_violated(read(False, 3, 5.5))
    assert is_violated(read(True, 7, 8)), "dropped before"
    assert not is_violated(read(True, 7, 9.5))


def test_changes_that_overlap_are_counted() -> None:
    assert History(HISTORY).overlapping() == 0
    assert History([*HISTORY, Change("b", True, 1.5, 5.5), Change("c", True, 1.6, 1.7)]).overlapping() == 3
