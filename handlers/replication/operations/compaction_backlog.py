"""What the target's compactor has to do for a replica, and what it could not do, as far as an operator must know it.

Hive keeps a record of every compaction for days, so only the states that matter are read, each by a call of its own with a limit. A
failed compaction matters until a later one of the same table or partition succeeds. Hive keeps its record longer, so the later ones
are read as well, for ``CHECKED_MAX`` objects at most.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final

from handlers.replication.operations.compaction import CompactionState, describe_compaction


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from handlers.metastore.client import Metastore
    from handlers.structs.transactions import ShowCompactResponseElement


FAILED: Final = "failed"
DID_NOT_INITIATE: Final = "did not initiate"
QUEUED: Final = "initiated"
STATES: Final[Mapping[str, str]] = {
    FAILED: "f",
    DID_NOT_INITIATE: "a",
    "working": "w",
    QUEUED: "i",
    "ready for cleaning": "r",
}
"""The states that are read, with Hive's letters; those that need attention first."""
_SUCCEEDED: Final = frozenset({"succeeded", "ready for cleaning"})
READ_MAX: Final = 10_000
"""Compactions of one state that are read; more are not counted."""
CHECKED_MAX: Final = 100
"""Failed tables and partitions for which later compactions are read; further ones count as failed."""

_Object = tuple[str, str]


@dataclass(frozen=True, slots=True)
class CompactionBacklog:
    """The compactions of one database that wait, run or failed."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """By state. Of failed ones, each table or partition counts once."""
    oldest_queued_s: float | None = None
    """Unix time since which the oldest queued compaction waits."""
    listed: tuple[CompactionState, ...] = ()
    """Some of them, failed ones first."""


def read_backlog(target: Metastore, db: str, *, listed_max: int) -> CompactionBacklog:
    """Return the compactions of database ``db``; at most ``listed_max`` are listed. Raises the errors of the metastore."""
    found = {state: _read(target, db, state) for state in STATES}
    for state in (FAILED, DID_NOT_INITIATE):
        found[state] = _drop_superseded(found[state], target, db)
    queued = [each.enqueueTime for each in found[QUEUED] if each.enqueueTime]
    return CompactionBacklog(
        {state: len(each) for state, each in found.items()},
        min(queued) / 1000 if queued else None,
        tuple(
            describe_compaction(each)
            for each in islice((each for some in found.values() for each in some), listed_max)
        ),
    )


def _read(target: Metastore, db: str, state: str) -> list[ShowCompactResponseElement]:
    """Return the compactions in one state, the newest first."""
    answered = target.show_compactions(db, state=STATES[state], limit=READ_MAX)
    found = [each for each in answered if each.dbname == db and each.state == state]
    return sorted(found, key=lambda each: each.id or 0, reverse=True)


def _drop_superseded(
    failed: Iterable[ShowCompactResponseElement], target: Metastore, db: str
) -> list[ShowCompactResponseElement]:
    """Return the newest failure of each table or partition, unless a later compaction of it succeeded."""
    newest: dict[_Object, ShowCompactResponseElement] = {}
    for each in failed:
        newest.setdefault(_object(each), each)
    checked = list(islice(newest, CHECKED_MAX))
    ended: dict[_Object, int] = {}
    for table in dict.fromkeys(table for table, _ in checked):
        for each in target.show_compactions(db, table):
            if each.state in _SUCCEEDED:
                ended[_object(each)] = max(ended.get(_object(each), 0), each.id or 0)
    return [each for key, each in newest.items() if ended.get(key, 0) < (each.id or 0)]


def _object(each: ShowCompactResponseElement) -> _Object:
    return each.tablename, each.partitionname or ""
