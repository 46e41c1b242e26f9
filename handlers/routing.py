"""Decides once, for all projections of a source, which of them an event may concern.

A projection of one database names it in its ``Interest``, and receives the events of this database, the ends
of the transactions that have write ids in it, and the events that may concern any database. Other events
would have no effect on it (``Dispatcher.may_take_effect``).

The allocation of a write id names the transaction and the database, so the router remembers both until the
transaction ends. It knows only transactions opened after its first event. It sends the ends of all others to
every projection, including those that it had to forget because too many were open.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Final

from handlers.events import (
    CATALOGS,
    Event,
    FilesWritten,
    TableAltered,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    WriteIdsAllocated,
)


OPEN_TXNS_MAX: Final = 100_000
"""Open transactions that a router remembers."""

_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Interest:
    """The events that a projection must receive."""

    databases: frozenset[str] | None = None
    """The databases that it follows; None if it follows all events."""
    txns_up_to: int = -1
    """The ends of all transactions up to this one concern it, because it does not know which of them wrote
    into its databases."""


@dataclass(frozen=True, slots=True)
class Route:
    """The projections that an event may concern."""

    databases: frozenset[str] | None
    """The databases whose projections it may concern; None if unknown."""
    txn_id: int = -1
    """The transaction that the event ends or belongs to; -1 if there is none."""

    def concerns(self, interest: Interest) -> bool:
        """Whether a projection with this interest must receive the event."""
        if self.databases is None or interest.databases is None:
            return True
        is_unknown = 0 <= self.txn_id <= interest.txns_up_to
        return is_unknown or not self.databases.isdisjoint(interest.databases)


_NO_ONE: Final = Route(frozenset())
_EVERYONE: Final = Route(None)


class EventRouter:
    """Routes the events of one source, which it must see in order and without omissions."""

    def __init__(self, open_txns_max: int = OPEN_TXNS_MAX) -> None:
        self._open_txns_max = open_txns_max
        self._open: dict[int, frozenset[str]] = {}
        """The databases in which each open transaction has write ids."""

    def route(self, event: Event, followed: Container[str]) -> Route:
        """Return the projections that ``event`` may concern, among those of the databases ``followed``."""
        match event:
            case TxnsOpened():
                self._remember(range(event.first, event.last + 1))
                return _NO_ONE
            case TxnCommitted() | TxnAborted():
                return Route(self._open.pop(event.txn_id, None), event.txn_id)
            case FilesWritten():
                return self._route_files(event)
        if event.catalog not in CATALOGS:
            return _NO_ONE
        if event.db is None:
            return _EVERYONE
        databases = frozenset({event.db})
        match event:
            case WriteIdsAllocated():
                self._allocate(event, databases)
            case TableAltered():
                # A table moved to another database: only its object has the former one.
                quoted = _QUOTED.finditer(event.before.text)
                databases |= {name for match in quoted if (name := match[1]) in followed}
        return Route(databases)

    def _route_files(self, event: FilesWritten) -> Route:
        """Route the files of a transaction. They name the table as at the time of the write, and it may
        have been moved since.
        """
        databases = self._open.get(event.txn_id)
        if databases is None or event.db is None:
            return Route(None, event.txn_id)
        return Route(databases | {event.db}, event.txn_id)

    def _remember(self, txn_ids: Iterable[int]) -> None:
        for txn_id in txn_ids:
            self._open.setdefault(txn_id, frozenset())
        while len(self._open) > self._open_txns_max:
            del self._open[next(iter(self._open))]

    def _allocate(self, event: WriteIdsAllocated, databases: frozenset[str]) -> None:
        for txn_id, _ in event.pairs:
            if txn_id in self._open:
                self._open[txn_id] |= databases
