"""What the daemon tells about itself: plain values, their JSON form and their reading back.

One value feeds ``/api/v1/status``, the status page, the gauges of ``/metrics``, ``/readyz`` and ``tideline status``, so that
they cannot disagree. It is also written to ``<state.dir>/status.json`` now and then, for the time when no daemon runs.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from state.errors import MalformedEvent


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source: how far its metastore is, and how far the topic."""

    name: str
    current_event_id: int | None = None
    """The metastore's newest event, as of the last look at it."""
    relayed_event_id: int | None = None
    """The last event that is wholly in the topic; None where another daemon relays."""
    relay_state: str | None = None
    """State of this daemon's relay; None where it has none for the source."""
    lag_events: int | None = None
    lag_s: float | None = None
    records: int = 0
    """Records that this daemon's relay has published since its start, and their bytes."""
    size_bytes: int = 0
    commits_with_writes: int = 0
    """Commits whose write events were fetched."""
    commits_without_writes: int = 0
    """Commits with write ids but no write events: dml.events is off for some writer."""
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class ProjectionView:
    """One projection: how far it is, and what it does not follow."""

    name: str
    source: str
    state: str
    position: str | None = None
    """Event id, with part and parts while inside an event."""
    event_id: int | None = None
    """The last event that was applied as a whole."""
    lag_events: int | None = None
    lag_s: float | None = None
    quarantined: tuple[str, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0
    duplicates: int = 0
    """Records that had been applied before; this and the next three since the daemon's start."""
    filled: int = 0
    """Events read from the notification log because the topic had lost them."""
    undecodable: int = 0
    """Records sent to the dead-letter topic."""
    unknown: int = 0
    """Events of types that this version does not know."""
    target: str | None = None
    """Name of the target database, with its cluster; None where a projection has none."""
    loading: tuple[str, ...] = ()
    """Tables that are being loaded, with how far they are."""


@dataclass(frozen=True, slots=True)
class CopyStatus:
    """Copies of one policy since the daemon's start."""

    policy: str
    files: int = 0
    """Copies that ended well, with those that were on the target already (``skipped``)."""
    size_bytes: int = 0
    skipped: int = 0
    waiting: int = 0
    """Queued and running."""
    fallbacks: int = 0
    """Files that came from the change manager."""
    mismatches: int = 0
    """Attempts whose bytes were not the recorded ones."""
    failed: int = 0


@dataclass(frozen=True, slots=True)
class FlatStatus:
    """One flat table: how its driver goes. The table itself is on its page."""

    name: str
    table: str
    """``db.table``."""
    state: str
    pid: int | None = None
    """Of the driver."""
    batch: int | None = None
    """The last batch that is in the table."""
    rows: int = 0
    """Since the daemon's start, as are misfits and dead letters."""
    misfits: int = 0
    dead_letters: int = 0
    lag_records: int | None = None
    """Records of the topic behind the last batch; None where the source does not tell."""
    lag_s: float | None = None
    columns: int | None = None
    """Columns that hold a key."""
    seal_backlog: int = 0
    watermark_s: int | None = None
    told_s: float | None = None
    """Unix time at which the driver last told how it stands."""
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class MinedSource:
    """One source of queries: what mining made of it since the daemon's start."""

    name: str
    queries: int = 0
    queries_with_keys: int = 0
    asks: int = 0
    """Questions that were recorded: a key, asked by somebody in a query."""
    unresolved: int = 0
    dead: int = 0
    read_s: float | None = None
    """Unix time at which it was last read to its end."""
    problem: str | None = None
    """Why the last pass did not."""


@dataclass(frozen=True, slots=True)
class MiningStatus:
    """The miner: how its process goes, and its sources."""

    state: str
    pid: int | None = None
    sources: tuple[MinedSource, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """Everything, at one moment."""

    version: str
    host: str
    pid: int
    started_s: float
    """Unix time."""
    time_s: float
    """Unix time at which this was taken."""
    state: str = "running"
    """``starting``, ``running``, ``stopping`` or ``stopped``."""
    sources: tuple[SourceStatus, ...] = ()
    projections: tuple[ProjectionView, ...] = ()
    copies: tuple[CopyStatus, ...] = ()
    flats: tuple[FlatStatus, ...] = ()
    mining: MiningStatus | None = None
    """None where the daemon does not mine."""
    stuck: tuple[str, ...] = field(default=())
    """Loops without a heartbeat."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @staticmethod
    def from_json(value: object) -> DaemonStatus:
        """Read back what ``to_json`` gave, also from an older or newer version; raise MalformedEvent for anything else."""
        if not isinstance(value, dict):
            raise MalformedEvent(
                "the daemon's status is no JSON object", hint="Is this the address of a Tideline daemon?"
            )
        try:
            parts = {
                "sources": _rows(SourceStatus, value.get("sources")),
                "projections": _rows(ProjectionView, value.get("projections")),
                "copies": _rows(CopyStatus, value.get("copies")),
                "flats": _rows(FlatStatus, value.get("flats")),
                "mining": _mining(value.get("mining")),
                "stuck": tuple(value.get("stuck") or ()),
            }
            return _known(DaemonStatus, {**value, **parts})
        except (TypeError, AttributeError) as error:
            raise MalformedEvent(
                "the daemon's status cannot be read",
                hint="Is this the address of a Tideline daemon?",
                reason=str(error),
            ) from error

    def ready(self, lag_max_s: float) -> list[str]:
        """Return why the daemon is not ready; empty where it is: all relays, projections and flat tables following, each within the lag."""
        if self.state != "running":
            return [f"the daemon is {self.state}"]
        reasons = [
            f"the relay of {source.name} is {source.relay_state}"
            for source in self.sources
            if source.relay_state not in {None, "following"}
        ]
        reasons += [f"{view.name} is {view.state}" for view in self.projections if view.state != "following"]
        reasons += [f"flat:{flat.name} is {flat.state}" for flat in self.flats if flat.state != "following"]
        lags = [(source.name, source.lag_s) for source in self.sources]
        lags += [(view.name, view.lag_s) for view in self.projections]
        lags += [(f"flat:{flat.name}", flat.lag_s) for flat in self.flats]
        late = [(name, lag_s) for name, lag_s in lags if lag_s is not None and lag_s > lag_max_s]
        return reasons + [f"{name} lags by {lag_s:.0f} s" for name, lag_s in late]


def _mining(row: object) -> MiningStatus | None:
    if not isinstance(row, dict):
        return None
    return _known(MiningStatus, {**row, "sources": _rows(MinedSource, row.get("sources"))})


def _rows(kind: type[T], rows: object) -> tuple[T, ...]:
    found = rows if isinstance(rows, list | tuple) else []
    return tuple(_known(kind, row) for row in found)


def _known(kind: type[T], values: dict[str, Any]) -> T:
    """Build ``kind`` from the fields that it knows; lists become tuples."""
    given = {name: values[name] for name in kind.__slots__ if name in values}  # type: ignore[attr-defined]  # all are slotted
    return kind(**{name: tuple(v) if isinstance(v, list) else v for name, v in given.items()})
