"""Opens tables of the index that another process keeps, where the index is certain to be new enough.

A table is opened in four steps:

1. open a snapshot of the index; forward calls about tables that are not followed in it, which needs no query;
2. query the source's newest event id (``newest_event``);
3. answer from the snapshot if it contains that event. Otherwise wait for the follower, for a bounded time, and open another one;
4. check the table again in the snapshot that answers.

The event id is queried after the request arrived. Whatever was committed before that has an id that is not above it, because the
metastore allocates ids in the order of commits. So an answer contains every change that was committed before its request.
"""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import structlog

from daemon.endpoint.answers.table_access import Forward, Reason, TableView
from state.errors import TidelineError
from state.freshness import Freshness, Patience


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from daemon.endpoint.freshness.newest_event import NewestEvent
    from daemon.endpoint.freshness.position_watch import PositionWatch
    from daemon.endpoint.verification.differing_tables import DifferingTables
    from handlers.catalog.index.index_file import IndexFile, IndexMoment


log = structlog.get_logger(__name__)


class IndexAccess:
    """Opens tables for any thread (``table_access.TableAccess``)."""

    def __init__(  # noqa: PLR0913 - the parts of one decision, all by name
        self,
        *,
        file: IndexFile,
        newest: NewestEvent,
        watch: PositionWatch,
        differing: DifferingTables,
        freshness: Freshness,
        wait_s: float,
        behind: Callable[[int], None] = lambda _event_id: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``behind`` is called with the event that a request begins to wait for; it must return at once."""
        self._file = file
        self._newest = newest
        self._watch = watch
        self._differing = differing
        self._freshness = freshness
        self._wait_s = wait_s
        self._behind = behind
        self._clock = clock
        self._patience = Patience()
        self._lock = threading.Lock()

    @contextmanager
    def open_table(self, db: str, table: str) -> Iterator[TableView | Forward]:
        """Open a table of the catalog ``hive``, or return why the call must be forwarded."""
        with ExitStack() as stack:
            yield self._open(stack, f"{db}.{table}".lower())

    def _open(self, stack: ExitStack, name: str) -> TableView | Forward:
        try:
            found = self._open_fresh(stack, name)
        except TidelineError as error:
            log.debug("the index cannot be used", code=error.code, problem=str(error))
            found = Forward(Reason.UNAVAILABLE)
        if isinstance(found, Forward):
            stack.close()  # forwarding may take long, and needs no snapshot
        return found

    def _open_fresh(self, stack: ExitStack, name: str) -> TableView | Forward:
        # 1.
        moment = stack.enter_context(self._file.moment())
        view = self._view(moment, name)
        if isinstance(view, Forward) or not self._freshness.observes:
            return view
        # 2.
        arrived_s = self._clock()
        newest = self._newest.observe(self._freshness, arrived_s)
        if newest.sent_s > arrived_s and newest.event_id < view.event_id:
            return Forward(Reason.UNAVAILABLE)  # the index is ahead of its source, which was restored
        # 3.
        if view.event_id >= newest.event_id:
            return view
        stack.close()
        if not self._wait(newest.event_id, view.event_id):
            return Forward(Reason.NOT_FRESH)
        # 4.
        view = self._view(stack.enter_context(self._file.moment()), name)
        if isinstance(view, TableView) and view.event_id < newest.event_id:
            return Forward(Reason.NOT_FRESH)
        return view

    def _wait(self, event_id: int, position: int) -> bool:
        with self._lock:
            if not self._patience.may_wait(position):
                return False
        self._behind(event_id)
        if self._watch.wait(event_id, self._wait_s):
            return True
        with self._lock:
            self._patience = self._patience.after_timeout(event_id)
        return False

    def _view(self, moment: IndexMoment, name: str) -> TableView | Forward:
        state = moment.table_state(name)
        if state is None or state.known is None:
            return Forward(Reason.UNKNOWN_TABLE)
        event_id = moment.event_id
        if state.name != "following" or event_id < state.known.until:
            # A listing may contain later events up to 'until': before that, the content never existed in this form.
            return Forward(Reason.NOT_FOLLOWING)
        if self._differing.contains(name, moment.index.table(name).number):
            return Forward(Reason.DIFFERS)
        return TableView(name, moment.record(name), moment.index, moment.payloads, moment.budget, event_id)
