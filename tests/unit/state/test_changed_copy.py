"""Copies with changed entries."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from state.changed_copy import changed_copy


KEYS = st.integers(0, 5)


@given(st.dictionaries(KEYS, st.integers()), st.dictionaries(KEYS, st.one_of(st.none(), st.integers())))
def test_a_copy_is_as_a_merge_without_the_removed_entries(
    before: dict[int, int], changes: dict[int, int | None]
) -> None:
    kept = dict(before)
    merged = {**before, **changes}
    assert changed_copy(before, changes) == {key: each for key, each in merged.items() if each is not None}
    assert before == kept
