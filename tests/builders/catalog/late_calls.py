"""Metastore calls of a catalog that are made, fail and are answered when a test says so; without threads."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from handlers.metastore.client import Metastore
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store


def begin_at_newest_event(store: Store, source: Any) -> None:
    """Store the position of a catalog that has begun, so that opening it makes no call; one that is there is
    kept."""
    if store.get(POSITION_KEY) is None:
        with store.transaction() as txn:
            txn.put(POSITION_KEY, Position(source.current_event_id()).to_bytes())


class LateCalls:
    """``BackgroundCalls`` in which every function waits until ``make``, and its result until ``answer``."""

    def __init__(self, source: Any) -> None:
        self._source: Metastore = source
        self._waiting: list[tuple[Future[Any], Callable[[Metastore], Any]]] = []
        self._made: list[tuple[Future[Any], Any, BaseException | None]] = []

    def submit(self, function: Callable[[Metastore], Any]) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, function))
        return future

    def make(self) -> None:
        """Run the next function, if there is one, and keep its result."""
        if self._waiting:
            future, function = self._waiting.pop(0)
            try:
                self._made.append((future, function(self._source), None))
            except Exception as error:  # noqa: BLE001 - raised where the result is read
                self._made.append((future, None, error))

    def answer(self) -> None:
        """Return what was kept."""
        for future, result, error in self._made:
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(result)
        self._made.clear()

    def close(self) -> None:
        self._waiting.clear()
        self._made.clear()
