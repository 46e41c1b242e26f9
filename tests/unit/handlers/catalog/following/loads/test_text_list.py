"""A list of texts in few objects reads as the list that it was made of, and frees that list in steps."""

from __future__ import annotations

import gc
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.catalog.following.loads import listings
from handlers.catalog.following.loads.listings import TextList


class Text(str):  # a string that can be observed
    __slots__ = ("__weakref__",)


@pytest.fixture(autouse=True)
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "BLOCK", 3)


@given(st.lists(st.text(max_size=3), max_size=12), st.slices(14).filter(lambda part: (part.step or 1) == 1))
def test_items_and_parts_are_those_of_the_list(texts: list[str], part: slice) -> None:
    made = TextList.take(list(texts))
    assert len(made) == len(texts)
    assert list(made) == texts
    assert [made[at] for at in range(-len(texts), len(texts))] == texts * 2
    assert made[part] == texts[part]


def test_a_missing_item_is_an_error() -> None:
    with pytest.raises(IndexError):
        TextList.take(["a"])[1]


def test_the_strings_of_the_list_are_freed_block_by_block() -> None:
    texts: list[str] = [Text(number) for number in range(10)]
    alive = [weakref.ref(text) for text in texts]
    freed: list[int] = []
    TextList.take(texts, lambda: freed.append(sum(one() is None for one in alive)))
    assert freed == [1, 4, 7, 10]
    assert not texts


def test_a_thousand_texts_are_one_object_for_the_collector(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listings, "BLOCK", 1_000)
    made = TextList.take([str(number) for number in range(10_000)])
    found = [made]
    referred = 0
    while found:
        found = [one for each in found for one in gc.get_referents(each) if not isinstance(one, type)]
        referred += len(found)
    assert referred < 100
