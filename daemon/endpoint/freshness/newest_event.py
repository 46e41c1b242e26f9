"""The source's newest event id, queried once for all requests that arrived before the query was sent.

A request may only rely on a query that was sent after it arrived (``state.freshness``). While a query is under way, requests that arrive
wait for the next one, and one query then serves all of them. So the metastore receives at most one such call at a time, however
many clients there are.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from state.errors import Inconsistent, MetastoreUnavailable, TidelineError
from state.freshness import Observation


if TYPE_CHECKING:
    from collections.abc import Callable

    from state.freshness import Freshness


class NewestEvent:
    """Queries the source on behalf of many threads."""

    def __init__(self, query: Callable[[], int], clock: Callable[[], float] = time.monotonic) -> None:
        """``query`` returns the newest event id; it is called by one thread at a time."""
        self._query = query
        self._clock = clock
        self._changed = threading.Condition()
        self._begun = 0
        self._ended = 0
        self._last: Observation | None = None
        self._failure: TidelineError | None = None

    def observe(self, freshness: Freshness, arrived_s: float) -> Observation:
        """Return an observation that a request which arrived then may rely on.

        Raises the error of the query, and Inconsistent if the source's newest event is older than before: the metastore was restored.
        """
        with self._changed:
            last = self._last
            if last is not None and freshness.accepts(last, arrived_s):
                return last
            needed = self._begun + 1
            while self._ended < needed and self._begun > self._ended:
                self._changed.wait()
            if self._ended >= needed:
                return self._result()
            self._begun += 1
        return self._run()

    def _run(self) -> Observation:
        failure: TidelineError = MetastoreUnavailable("the query for the newest event ended unexpectedly")
        found: Observation | None = None
        try:
            sent_s = self._clock()
            found = Observation(self._query(), sent_s)
        except TidelineError as error:
            failure = error
        finally:
            self._end(found, failure)
        return self._result()

    def _end(self, found: Observation | None, failure: TidelineError) -> None:
        with self._changed:
            self._ended = self._begun
            self._failure = failure if found is None else self._check(found)
            if self._failure is None:
                self._last = found
            self._changed.notify_all()

    def _check(self, found: Observation) -> TidelineError | None:
        if self._last is None or found.event_id >= self._last.event_id:
            return None
        return Inconsistent(
            "the source's newest event is older than before",
            found=found.event_id,
            before=self._last.event_id,
            hint="If the metastore was restored from a backup, restart the endpoint once the catalog follows it again.",
        )

    def _result(self) -> Observation:
        with self._changed:
            if self._failure is not None:
                raise self._failure
            assert self._last is not None, "a query without failure has a result"
            return self._last
