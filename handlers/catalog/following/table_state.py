"""The state of one table: one stored value, from the survey that finds the table until dropped.

============ ==========================================================================================
state        meaning
============ ==========================================================================================
waiting      it will be loaded; nothing about it is known, or what was known is being replaced
loading      a load in pieces is under way
doubtful     it was followed until an event whose effect only a listing can show; a load is requested
following    what is known equals the source at the position
quarantined  it cannot be followed until a load succeeds; one is tried with growing pauses, or when an
             operator requests it
============ ==========================================================================================

A table's ``as_of`` is the newest event id before its listing began. The listing contains events up to it,
which must not apply again (a drop would undo a later add). It may contain later events, which apply again;
that is harmless because every change is idempotent. So tables can load one by one, at any time, while events
arrive. Only a rename during the listing needs more, because no later event reports the parts that the listing
missed. ``until`` exists for this case.

A table loaded in pieces has a load progress. Its ``as_of`` is that of the first piece; later events reach the
staged content between pieces. The state stores the next piece, so loading continues there after a restart.

If the metastore fails to serve a load, the catalog postpones it, with its number of tries and the time of the
next one.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any, Final

import orjson

from state.errors import StateCorrupt


FROM_PARTITIONS: Final = frozenset({"unsure", "columns", "asked"})
"""Reasons for which the catalog does not trust a table's own properties."""
PAUSE_MIN_S: Final = 5
PAUSE_MAX_S: Final = 3600
PAUSE_SHARE: Final = 10
"""A postponed load waits at least this many times as long as its last try took."""


@dataclass(frozen=True, slots=True)
class FollowedTable:
    """State of a followed or quarantined table. The field names are stored."""

    columns: tuple[str, ...]
    as_of: int
    until: int = 0
    """The newest event id after its listing ended: a rename up to this id may have truncated the listing."""
    code: str | None = None
    """Code of the error that quarantined it; None while followed."""
    reason: str | None = None
    published: str | None = None
    """The event id that Tideline last wrote into the table's properties."""
    failed_at: int = 0
    """The event that quarantined it; 0 if it failed while it was loaded."""
    failed_s: int = 0
    """Unix time of its quarantine."""


@dataclass(frozen=True, slots=True)
class RequestedLoad:
    """A load to do. The field names are stored."""

    reason: str
    """``snapshot``, ``changed``, ``unsure``, ``columns`` (``column_checks``) or ``asked``."""
    event_id: int = 0
    """The event that made it necessary; 0 for none."""


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """The progress of a table loaded in pieces. The field names are stored."""

    as_of: int
    columns: tuple[str, ...]
    last: str = ""
    """Name of the last partition of the last piece; pieces follow the order of names as text."""
    done: int = 0
    total: int = 0
    """How many partitions were listed; ``done`` counts those staged."""


@dataclass(frozen=True, slots=True)
class PostponedLoad:
    """A load that failed for a transient reason. The field names are stored."""

    tries: int
    next_s: int
    """Unix time of the next try."""
    code: str
    reason: str

    def after(self, took_s: float, now_s: float) -> PostponedLoad:
        """Return this failure with the time of the next try: the pause doubles with each failure, and
        grows with the duration of the failed try.
        """
        doubled_s = PAUSE_MIN_S * 2 ** min(self.tries - 1, 20)
        pause_s = min(PAUSE_MAX_S, max(doubled_s, int(PAUSE_SHARE * took_s)))
        return replace(self, next_s=int(now_s) + pause_s)

    def is_due(self, now_s: float) -> bool:
        """Whether it is time for the next try; True as well if the clock has gone back by more than the
        longest pause.
        """
        return not now_s < self.next_s <= now_s + PAUSE_MAX_S


@dataclass(frozen=True, slots=True)
class TableState:
    """Everything about the progress of one table; ``load`` is None if there is nothing to do. The field names
    are stored.
    """

    known: FollowedTable | None = None
    load: RequestedLoad | None = None
    progress: LoadProgress | None = None
    postponed: PostponedLoad | None = None

    @property
    def name(self) -> str:
        """The state's name, as in the table above."""
        if self.known is not None and self.known.code is not None:
            return "quarantined"
        if self.load is None:
            return "following"
        if self.progress is not None:
            return "loading"
        return "doubtful" if self.known is not None and self.load.reason in FROM_PARTITIONS else "waiting"

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return self.known is None and self.load is None

    def describe(self) -> dict[str, Any]:
        """Return the state as plain values: its name and reason, the event that caused it, the number of
        tries and the time of the next try.
        """
        known, load, postponed = self.known, self.load, self.postponed
        is_quarantined = known is not None and known.code is not None
        return {
            "state": self.name,
            "reason": (known.reason if is_quarantined and known is not None else None)
            or (postponed.reason if postponed is not None else None)
            or (load.reason if load is not None else None),
            "event_id": (known.failed_at if is_quarantined and known is not None else 0)
            or (load.event_id if load is not None else 0)
            or None,
            "tries": 0 if postponed is None else postponed.tries,
            "next_try_s": None if postponed is None else postponed.next_s,
        }

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return orjson.dumps({name: part for name, part in asdict(self).items() if part is not None})


_PARTS: Final = frozenset(part.name for part in fields(TableState))


def _require_parts(parts: dict[str, Any]) -> dict[str, Any]:
    if not parts or not parts.keys() <= _PARTS:
        raise KeyError(*parts)
    return parts


@lru_cache(maxsize=256)  # the endpoint reads the same states for every answer
def parse_state(value: bytes) -> TableState:
    """Read the stored form; raise StateCorrupt if malformed."""
    try:
        parts = _require_parts(orjson.loads(value))
        return TableState(
            known=parse_followed(parts["known"]) if "known" in parts else None,
            load=RequestedLoad(**parts["load"]) if "load" in parts else None,
            progress=parse_progress(parts["progress"]) if "progress" in parts else None,
            postponed=PostponedLoad(**parts["postponed"]) if "postponed" in parts else None,
        )
    except (TypeError, KeyError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("the state of a table cannot be read", reason=str(error)) from error


def parse_followed(stored: dict[str, Any]) -> FollowedTable:
    """Read a known table from its stored fields; raise TypeError, KeyError."""
    return FollowedTable(**(stored | {"columns": tuple(stored["columns"])}))


def parse_progress(stored: dict[str, Any]) -> LoadProgress:
    """Read a load progress from its stored fields; raise TypeError, KeyError."""
    return LoadProgress(**(stored | {"columns": tuple(stored["columns"])}))
