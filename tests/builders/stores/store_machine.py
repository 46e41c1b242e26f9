"""Random steps on a store, each compared with a dictionary: every implementation of the port runs them."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from state.store import Reader, Store, Transaction


Model = dict[bytes, bytes]

KEYS = st.binary(max_size=3) | st.sampled_from(
    [b"", b"\x00", b"\xff", b"\xff\xff", b"a", b"a\x00", b"a\xff", b"b"]
)
ENDS = st.none() | KEYS
LIMITS = st.none() | st.integers(0, 5)


def expected_scan(
    model: Model, start: bytes, end: bytes | None, *, reverse: bool, limit: int | None
) -> list[tuple[bytes, bytes]]:
    found = sorted((k, v) for k, v in model.items() if start <= k and (end is None or k < end))
    return (found[::-1] if reverse else found)[:limit]


class StoreMachine(RuleBasedStateMachine):
    """Random transactions, committed or rolled back; ``committed`` is the model outside, ``own`` inside a
    transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.store: Store = self.open()
        self.committed: Model = {}
        self.own: Model | None = None
        self.blocks = ExitStack()
        self.transaction: Transaction | None = None

    def open(self) -> Store:
        raise NotImplementedError

    @property
    def reader(self) -> Reader:
        return self.store if self.transaction is None else self.transaction

    @property
    def model(self) -> Model:
        return self.committed if self.own is None else self.own

    @precondition(lambda self: self.transaction is None)
    @rule()
    def begin(self) -> None:
        self.transaction = self.blocks.enter_context(self.store.transaction())
        self.own = dict(self.committed)

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def commit(self) -> None:
        assert self.own is not None
        self.blocks.close()
        self.committed, self.own, self.transaction = self.own, None, None

    @precondition(lambda self: self.transaction is not None)
    @rule()
    def fail(self) -> None:
        with pytest.raises(ZeroDivisionError), self.blocks:
            raise ZeroDivisionError
        self.own, self.transaction = None, None

    @precondition(lambda self: self.transaction is not None)
    @rule(key=KEYS, value=st.binary(max_size=8))
    def put(self, key: bytes, value: bytes) -> None:
        assert self.transaction is not None
        self.transaction.put(key, value)
        self.model[key] = value

    @precondition(lambda self: self.transaction is not None)
    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.transaction is not None
        self.transaction.delete(key)
        self.model.pop(key, None)

    @precondition(lambda self: self.transaction is not None)
    @rule(start=KEYS, end=ENDS)
    def delete_range(self, start: bytes, end: bytes | None) -> None:
        assert self.transaction is not None
        doomed = expected_scan(self.model, start, end, reverse=False, limit=None)
        self.transaction.delete_range(start, end)
        for key, _ in doomed:
            del self.model[key]

    @precondition(lambda self: self.transaction is not None)
    @rule(start=KEYS, end=ENDS, reverse=st.booleans())
    def delete_what_a_scan_gives(self, start: bytes, end: bytes | None, reverse: bool) -> None:
        assert self.transaction is not None
        expected = expected_scan(self.model, start, end, reverse=reverse, limit=None)
        seen = []
        for key, value in self.transaction.scan(start, end, reverse=reverse):
            seen.append((key, value))
            self.transaction.delete(key)
            del self.model[key]
        assert seen == expected

    @rule(key=KEYS)
    def get(self, key: bytes) -> None:
        assert self.reader.get(key) == self.model.get(key)

    @rule(start=KEYS, end=ENDS, reverse=st.booleans(), limit=LIMITS)
    def scan(self, start: bytes, end: bytes | None, reverse: bool, limit: int | None) -> None:
        found = list(self.reader.scan(start, end, reverse=reverse, limit=limit))
        assert found == expected_scan(self.model, start, end, reverse=reverse, limit=limit)

    @rule(start=KEYS, end=ENDS)
    def scan_keys(self, start: bytes, end: bytes | None) -> None:
        found = list(self.reader.scan_keys(start, end))
        assert found == [key for key, _ in expected_scan(self.model, start, end, reverse=False, limit=None)]

    @invariant()
    def everything_is_there(self) -> None:
        assert dict(self.reader.scan(b"", None)) == self.model

    def teardown(self) -> None:
        self.blocks.close()
        self.store.check()
        self.store.close()
        self.folder.cleanup()
