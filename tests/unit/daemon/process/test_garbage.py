"""Pauses of the garbage collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from daemon.process.garbage import shorten_pauses


class Node:
    """An object that can refer to itself."""

    me: object = None


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    before = list(gc.callbacks)
    yield
    gc.callbacks[:] = before
    gc.unfreeze()


def test_what_survives_a_long_collection_is_not_visited_again_and_still_freed_when_unused() -> None:
    shorten_pauses(0.0)
    node, cycle = Node(), Node()
    cycle.me = cycle
    freed, kept = weakref.ref(node), weakref.ref(cycle)
    gc.collect()
    assert gc.get_freeze_count() > 1_000
    del node, cycle
    gc.collect()
    assert freed() is None
    assert kept() is not None, "it was excluded"


def test_a_short_collection_excludes_nothing() -> None:
    shorten_pauses(60.0)
    gc.collect()
    gc.collect(0)
    assert gc.get_freeze_count() == 0
