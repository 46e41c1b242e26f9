"""Stored form of the positions of query sources."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import LimitExceeded, StateCorrupt
from streaming.keylog.records import CHARS_PLAIN, pack_position, unpack_position


@given(st.text() | st.text(st.characters(), min_size=1).map(lambda text: text * CHARS_PLAIN))
def test_a_position_comes_back_unchanged(position: str) -> None:
    assert unpack_position(pack_position(position)) == position


def test_a_long_position_is_deflated_and_a_short_one_stored_as_it_is() -> None:
    assert pack_position('{"files": {}}') == '{"files": {}}'
    assert len(pack_position("/history/done/2026/11/22/job_1234_conf.xml" * 10_000)) < CHARS_PLAIN


def test_a_position_that_looks_deflated_is_deflated() -> None:
    assert unpack_position(pack_position("deflated:yes")) == "deflated:yes"


@pytest.mark.parametrize(
    "stored", ["deflated:", "deflated:?", "deflated:AAAA", pack_position("x" * 99_999)[:-8]]
)
def test_a_damaged_position_is_reported(stored: str) -> None:
    with pytest.raises(StateCorrupt):
        unpack_position(stored)


def test_a_position_that_is_too_long_for_a_database_is_refused() -> None:
    noise = random.Random(7).randbytes(16 << 20).hex()  # noqa: S311 - noise that does not shrink
    with pytest.raises(LimitExceeded):
        pack_position(noise)
