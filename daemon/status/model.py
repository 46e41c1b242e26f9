"""The status of the daemon: plain values, and their conversion to and from JSON.

One value feeds ``/api/v1/status``, the status page, the gauges of ``/metrics``, ``/readyz`` and ``tideline status``, so that
they cannot disagree. It is also written to ``<state.dir>/status.json`` now and then, for the time when no daemon runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_jsonable_python

from state.errors import MalformedEvent
from state.table_failure import TableFailure  # noqa: TC001 - pydantic reads the annotations


if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


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
    failures: tuple[TableFailure, ...] = ()
    """Why each quarantined table is quarantined."""
    repair: str = ""
    """How a quarantined table is followed again; ``{table}`` stands for its name."""


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
    stuck: tuple[str, ...] = ()
    """Loops without a heartbeat."""
    sections: Mapping[str, object] = field(default_factory=dict)
    """What capabilities add, by the key of their ``StatusSection``; in JSON beside the other fields."""

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[str, Any] = to_jsonable_python(self)
        sections = plain.pop("sections")
        return {**plain, **sections}

    @staticmethod
    def from_json(value: object, sections: Sequence[StatusSection[Any]]) -> DaemonStatus:
        """Read back what ``to_json`` returned, also from an older or newer version; raise MalformedEvent for anything else."""
        if not isinstance(value, dict):
            raise MalformedEvent(
                "the daemon's status is not a JSON object", hint="Is this the address of a Tideline daemon?"
            )
        try:
            found = {section.key: section.read(value.get(section.key)) for section in sections}
            return _STATUS.validate_python({**value, "sections": found})
        except ValidationError as error:
            raise MalformedEvent(
                "the daemon's status cannot be read",
                hint="Is this the address of a Tideline daemon?",
                reason=str(error.errors(include_url=False)[0]["msg"]),
            ) from error

    def unready_reasons(self, lag_max_s: float, sections: Sequence[StatusSection[Any]]) -> list[str]:
        """Return why the daemon is not ready; empty if all its loops follow, each within the lag."""
        if self.state != "running":
            return [f"the daemon is {self.state}"]
        reasons = [
            f"the relay of {source.name} is {source.relay_state}"
            for source in self.sources
            if source.relay_state not in {None, "following"}
        ]
        reasons += [f"{view.name} is {view.state}" for view in self.projections if view.state != "following"]
        lags = [(source.name, source.lag_s) for source in self.sources]
        lags += [(view.name, view.lag_s) for view in self.projections]
        for section in sections:
            reasons += section.unready_reasons(section.of(self))
            lags += section.lags(section.of(self))
        late = [(name, lag_s) for name, lag_s in lags if lag_s is not None and lag_s > lag_max_s]
        return reasons + [f"{name} lags by {lag_s:.0f} s" for name, lag_s in late]


_STATUS: Final = TypeAdapter(DaemonStatus)


class StatusSection(Generic[T]):
    """What a capability adds to the daemon's status: how it is read, printed and measured.

    ``T`` is a dataclass or a tuple of dataclasses; pydantic reads it and ignores fields that it does not know.
    """

    key: str
    """Name of its field in the JSON."""
    empty: T
    """The value where the daemon does not have the capability, or is older."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def of(self, status: DaemonStatus) -> T:
        """Return the section of ``status``."""
        found: T = status.sections.get(self.key, self.empty)  # type: ignore[assignment]  # stored under the key by this class
        return found

    def read(self, value: object) -> T:
        """Return the section from JSON; raise ValidationError."""
        return self.empty if value is None else self._adapter.validate_python(value)

    def text(self, value: T, now_s: float) -> str:  # noqa: ARG002 - a section without text overrides nothing
        """Return a table for ``tideline status``, or an empty text."""
        return ""

    def problems(self, value: T) -> list[str]:  # noqa: ARG002 - as above
        """Return a line for each problem, which starts with the name of what has it."""
        return []

    def unready_reasons(self, value: T) -> list[str]:  # noqa: ARG002 - as above
        """Return why the daemon is not ready."""
        return []

    def lags(self, value: T) -> list[tuple[str, float | None]]:  # noqa: ARG002 - as above
        """Return names and lags that count for readiness."""
        return []

    def families(self, value: T) -> Iterable[Metric]:  # noqa: ARG002 - as above
        """Yield metrics that are made from the section at each scrape."""
        return ()

    def links(self, value: T) -> str:  # noqa: ARG002 - as above
        """Return HTML for the status page: links to further pages."""
        return ""
