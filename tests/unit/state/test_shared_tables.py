"""Tables that one thread changes and others read."""

from __future__ import annotations

import threading

from hypothesis import given
from hypothesis import strategies as st

from state.shared_tables import SharedTables


NAMES = st.sampled_from("abcdef")
NUMBERS = st.integers(0, 3)


@given(st.dictionaries(NAMES, NUMBERS), st.lists(st.dictionaries(NAMES, st.one_of(st.none(), NUMBERS))))
def test_they_are_what_a_sorted_dictionary_with_the_changes_is(
    before: dict[str, int], changes: list[dict[str, int | None]]
) -> None:
    tables, model = SharedTables(before), {**before}
    for each in changes:
        tables.change(each)
        merged = {**model, **each}
        model = {name: value for name, value in merged.items() if value is not None}
        assert tables.items() == sorted(model.items())
        assert tables.names() == list(tables) == sorted(model)
        assert len(tables) == len(model)
        for name in "abcdef":
            assert tables.get(name) == model.get(name)
            assert (name in tables) == (name in model)


def test_a_reader_sees_all_of_a_change_or_nothing_of_it() -> None:
    pairs, tables, ended = [f"{number:03}" for number in range(200)], SharedTables[int](), threading.Event()

    def change() -> None:
        for value in range(300):
            tables.change(dict.fromkeys(pairs, value if value % 3 else None))
        ended.set()

    thread = threading.Thread(target=change)
    thread.start()
    while not ended.is_set():
        items = tables.items()
        assert len(items) in {0, len(pairs)}
        assert len({value for _, value in items}) <= 1
    thread.join()
