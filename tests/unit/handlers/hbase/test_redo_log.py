"""The redo log: a transaction as bytes."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.hbase.redo_log import ClearedRange, Writes
from state.errors import StateCorrupt


KEYS = st.binary(max_size=5)
VERSIONS = st.integers(0, 2**63)
WRITES = st.builds(
    Writes,
    VERSIONS,
    st.dictionaries(KEYS, st.binary(max_size=9), max_size=4),
    st.lists(KEYS, max_size=3),
    st.lists(st.builds(ClearedRange, KEYS, st.none() | KEYS, VERSIONS), max_size=3),
)


@given(WRITES)
def test_writes_are_read_back_from_their_bytes(writes: Writes) -> None:
    assert Writes.from_bytes(writes.to_bytes()) == writes


@given(WRITES, st.data())
def test_truncated_bytes_are_corrupt_state_or_fewer_writes(writes: Writes, data: st.DataObject) -> None:
    whole = writes.to_bytes()
    part = whole[: data.draw(st.integers(0, max(0, len(whole) - 1)))]
    try:
        read = Writes.from_bytes(part)
    except StateCorrupt:
        return
    assert len(read.puts) + len(read.deletes) + len(read.cleared) < max(
        1, len(writes.puts) + len(writes.deletes) + len(writes.cleared)
    )


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_corrupt_state(data: bytes) -> None:
    with suppress(StateCorrupt):
        assert Writes.from_bytes(data).version >= 0


@pytest.mark.parametrize(("end", "version", "goes"), [(b"c", 5, True), (None, 5, True), (b"c", 6, False)])
def test_a_cleared_range_removes_entries_that_are_not_newer(
    end: bytes | None, version: int, goes: bool
) -> None:
    cleared = ClearedRange(b"b", end, 5)
    assert cleared.has(b"b", version) is goes
    assert not cleared.has(b"a", 1)
    assert cleared.has(b"c", 1) is (end is None)
