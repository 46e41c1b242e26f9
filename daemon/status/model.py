"""The status of the daemon as plain values, and its conversion to and from JSON.

``/api/v1/status``, the status page, the gauges of ``/metrics``, ``/readyz`` and ``tideline status`` all use
this value, so that they cannot disagree. The daemon also writes it to ``<state.dir>/status.json``, which
``tideline status`` reads if no daemon is running.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar

from pydantic import Field, TypeAdapter, ValidationError

from daemon.consumer.event_reader import Stages
from daemon.status.action_calls import ActionCall
from daemon.terminal.layout import duration_text
from handlers.failures import TableFailure
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from daemon.status.flow import FlowNode


T = TypeVar("T")
ENDED: Final = frozenset({"promoted", "retired"})
"""States of a policy whose replication an operator has ended."""
NEW: Final = "not-bootstrapped"
"""State of a policy that waits for the request to bootstrap it."""
POLICY_STATES: Final = (NEW, "paused", *sorted(ENDED))
"""States of policies whose loop runs but does not follow."""
READ_S_MAX: Final = 5.0
"""A newest event id read within this time counts as the current one. The daemon reads sources every one or
two seconds.
"""


@dataclass(frozen=True, slots=True)
class OperatorAction:
    """One state that needs an operator."""

    kind: str
    """One of ``actions.KINDS``."""
    object: str
    """The table, loop or policy."""
    reason: str
    look: str
    """The section of the documentation to read."""
    command: str
    """The command that ends the state once its cause is gone."""
    since_s: float | None = None
    """Unix time; None if unknown."""
    action: ActionCall | None = None
    """The same as ``command`` over the API; None if there is no such action."""


@dataclass(frozen=True, slots=True)
class FailedLoop:
    """A loop that an error has ended. The daemon runs it again later."""

    name: str
    code: str
    problem: str
    since_s: float
    """Unix time."""
    hint: str = ""
    """The last part of ``problem``: what to do."""


@dataclass(frozen=True, slots=True)
class FailingLoad:
    """A table of a catalog whose load has failed. The catalog tries again."""

    table: str
    tries: int
    reason: str
    next_s: float | None = None
    """Unix time of the next try."""


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """The time left for a loop before it can no longer read its next events."""

    what: str
    """The objects that will disappear, such as ``events``."""
    left_s: float
    retention_s: float
    """The time left to a loop that has caught up."""


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """One source: the positions of its metastore and of its topic.

    Its relay, or the watch of its metastore, sets the positions; the reporter adds the state of the loop and
    the lag.
    """

    name: str
    current_event_id: int | None = None
    """The newest event of the metastore, as last read."""
    relayed_event_id: int | None = None
    """The last event that is completely in the topic; None if another daemon relays."""
    relay_state: str | None = None
    """State of this daemon's relay; None if another daemon relays."""
    lag_events: int | None = None
    """Events that are not in the topic yet, as last read: there may be more while the source is unreadable.
    ``lag_s`` counts that time.
    """
    lag_s: float | None = None
    records: int = 0
    """Records that this daemon's relay has published since the daemon's start, and their bytes."""
    size_bytes: int = 0
    commits_with_writes: int = 0
    """Commits with write events."""
    commits_without_writes: int = 0
    """Commits with write ids but no write events. Some DDL has none; if all commits have none, the writers
    run with ``hive.metastore.dml.events=false``, and their writes cannot be replicated."""
    unread: int = 0
    """Events, and write events of commits, that the metastore could not return."""
    listed: int = 0
    """Partitions without write event whose files the relay listed, and those that it could not list."""
    unlisted: int = 0
    lists_writes: bool = False
    """Whether the source does not report write events, so that the relay lists the directories of commits."""
    scanned: tuple[str, ...] = ()
    """Tables in which the relay found partitions that no event names, and that it scans since."""
    problem: str | None = None
    code: str | None = None
    read_s: float | None = None
    """Unix time at which ``current_event_id`` was read."""
    relayed_time_s: Annotated[int | None, Field(exclude=True)] = field(default=None, compare=False)
    """Event time of the last relayed event (Unix time). It is not in the JSON: ``lag_s`` follows from it."""


@dataclass(frozen=True, slots=True)
class ProjectionView:
    """One projection: its position, lag and quarantined tables."""

    name: str
    source: str
    state: str
    position: str | None = None
    """Event id, with part and parts while inside an event."""
    event_id: int | None = None
    """The last event applied completely."""
    lag_events: int | None = None
    """Events not applied yet, as last read; see ``SourceStatus``."""
    lag_s: float | None = None
    quarantined: tuple[str, ...] = ()
    problem: str | None = None
    code: str | None = None
    restarts: int = 0
    duplicates: int = 0
    """Records already applied. This and the next four counts are since the daemon's start."""
    filled: int = 0
    """Events missing in the topic and read from the notification log."""
    undecodable: int = 0
    """Records written to the dead-letter topic."""
    unknown: int = 0
    """Events of unknown types."""
    foreign: int = 0
    """Records in the dead-letter topic that are not of this source."""
    target: str | None = None
    """The target as ``cluster/database``; None if the projection has none."""
    loading: tuple[str, ...] = ()
    """Tables being loaded, with how far they are; or that a bootstrap waits for its turn."""
    failures: tuple[TableFailure, ...] = ()
    """The reason for each quarantined table."""
    repair: str = ""
    """How to follow a quarantined table again; ``{table}`` stands for its name."""
    paused_since_s: int | None = None
    """Unix time since which an operator has paused the projection."""
    pause_reason: str = ""
    """The operator's reason; empty if there is none."""
    failing: tuple[FailingLoad, ...] = ()
    """Tables whose load has failed; the catalog tries again."""
    place: int | None = None
    """The place among the policies that wait for their bootstrap, from 1."""
    stages: Stages | None = None
    """How long the stages of the last applied event took."""

    @property
    def relay(self) -> str:
        """The name of the loop that relays its source, here or in another daemon."""
        return f"relay:{self.source}"

    @property
    def loops(self) -> frozenset[str]:
        """The loops that it needs to follow: its own, and the relay."""
        return frozenset({self.name, self.relay})

    def repair_command(self, table: str) -> str:
        """Return the shell command that releases ``table``."""
        return self.repair.format(table=shlex.quote(table))


@dataclass(frozen=True, slots=True)
class DaemonStatus:
    """The whole status at one time."""

    version: str
    host: str
    pid: int
    started_s: float
    """Unix time."""
    time_s: float
    """Unix time of this status."""
    state: str = "running"
    """``starting``, ``running``, ``stopping`` or ``stopped``."""
    sources: tuple[SourceStatus, ...] = ()
    projections: tuple[ProjectionView, ...] = ()
    stuck: tuple[str, ...] = ()
    """Loops without a heartbeat."""
    failed_loops: tuple[FailedLoop, ...] = ()
    """Loops whose error does not clear on its own."""
    blocked_loops: tuple[FailedLoop, ...] = ()
    """Loops that continue on their own once something outside works again, such as a metastore or a disk."""
    needs_operator: tuple[OperatorAction, ...] = ()
    """Everything that needs an operator, with the command that helps."""
    sections: Mapping[str, object] = field(default_factory=dict)
    """Values of the capabilities' sections, by the key of the ``StatusSection``. In JSON, they are fields
    next to the others.
    """

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        plain: dict[str, Any] = _STATUS.dump_python(self, mode="json", warnings=False)
        sections = plain.pop("sections")
        return {**plain, **sections}

    @staticmethod
    def from_json(value: object, sections: Sequence[StatusSection[Any]]) -> DaemonStatus:
        """Return the status from its JSON form, which may be of an older or newer version.

        Raises MalformedEvent.
        """
        if not isinstance(value, dict):
            raise MalformedEvent(
                "the daemon's status is not a JSON object",
                hint="Check that the address is that of a Tideline daemon.",
            )
        try:
            values = {section.key: section.read(value.get(section.key)) for section in sections}
            return _STATUS.validate_python({**value, "sections": values})
        except ValidationError as error:
            raise MalformedEvent(
                "the daemon's status cannot be read",
                hint="Check that the address is that of a Tideline daemon.",
                reason=str(error.errors(include_url=False)[0]["msg"]),
            ) from error

    def newest_event_id(self, source: str) -> int | None:
        """Return the newest event id of a source; None while the source is unreadable."""
        source_row = next((row for row in self.sources if row.name == source), None)
        return (
            source_row.current_event_id
            if source_row is not None and is_present(source_row.read_s, self.time_s)
            else None
        )

    def unready_reasons(self, lag_max_s: float, sections: Sequence[StatusSection[Any]]) -> list[str]:
        """Return the reasons why the daemon is not ready; none if all loops follow and no lag exceeds
        ``lag_max_s``.
        """
        if self.state != "running":
            return [f"the daemon is {self.state}"]
        reasons = [
            f"the relay of {source.name} is {source.relay_state}"
            for source in self.sources
            if source.relay_state not in {None, "following"}
        ]
        expected = {"following", "paused", NEW, *ENDED}
        reasons += [f"{view.name} is {view.state}" for view in self.projections if view.state not in expected]
        lags = [(source.name, source.lag_s) for source in self.sources]
        lags += [(view.name, view.lag_s) for view in self.projections if view.state not in {"paused", *ENDED}]
        for section in sections:
            reasons += section.unready_reasons(section.of(self))
            lags += section.lags(section.of(self))
        late = [(name, lag_s) for name, lag_s in lags if lag_s is not None and lag_s > lag_max_s]
        return reasons + [f"{name} lags by {duration_text(lag_s)}" for name, lag_s in late]


_STATUS: Final = TypeAdapter(DaemonStatus)
STATUS_FORM: Final = _STATUS
"""The form of the JSON, without the sections."""


def is_present(read_s: float | None, now_s: float) -> bool:
    """Return whether a value that was read at ``read_s`` is still current."""
    return read_s is not None and now_s - read_s <= READ_S_MAX


class StatusSection(Generic[T]):
    """A capability's section of the status: its form in JSON, as text and as metrics.

    ``T`` is a dataclass or a tuple of dataclasses. Pydantic reads it and ignores unknown fields.
    """

    key: str
    """Name of its field in the JSON."""
    empty: T
    """The value if the daemon does not have the capability."""

    def __init__(self, kind: Any) -> None:
        self._adapter: TypeAdapter[T] = TypeAdapter(kind)

    def of(self, status: DaemonStatus) -> T:
        """Return the section of ``status``."""
        # This class stored the value under the key
        found: T = status.sections.get(self.key, self.empty)  # type: ignore[assignment]
        return found

    def read(self, value: object) -> T:
        """Return the section from JSON; raise ValidationError."""
        return self.empty if value is None else self._adapter.validate_python(value)

    def without(self, value: T, hidden: Container[str]) -> T:
        """Return the value without the rows of the projections with these names."""
        if not isinstance(value, tuple):
            return value
        # These are rows of the same tuple
        return tuple(  # type: ignore[return-value]
            row for row in value if f"replication:{getattr(row, 'policy', '')}" not in hidden
        )

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the section, without references to other schemas."""
        return self._adapter.json_schema(mode="serialization")

    def text(self, value: T, now_s: float) -> str:  # noqa: ARG002 - a section without text overrides nothing
        """Return a table for ``tideline status``; an empty text without rows."""
        return ""

    def problems(self, value: T) -> list[str]:  # noqa: ARG002 - as above
        """Return a line for each problem, starting with the name of the table or loop."""
        return []

    def actions(self, value: T) -> Iterable[OperatorAction]:  # noqa: ARG002 - as above
        """Return the states that need an operator."""
        return ()

    def unready_reasons(self, value: T) -> list[str]:  # noqa: ARG002 - as above
        """Return the reasons of this section why the daemon is not ready."""
        return []

    def lags(self, value: T) -> list[tuple[str, float | None]]:  # noqa: ARG002 - as above
        """Return the names of loops or tables and their lags, as far as these count for readiness."""
        return []

    def families(self, value: T) -> Iterable[Metric]:  # noqa: ARG002 - as above
        """Yield metrics computed from the section at each scrape."""
        return ()

    def copied_bytes(self, value: T) -> int:  # noqa: ARG002 - as above
        """Return the number of bytes copied since the daemon's start, for the history of the site."""
        return 0

    def time_left(self, value: T, loop: str) -> Iterable[TimeLeft]:  # noqa: ARG002 - as above
        """Return the time left for loops before they can no longer read their next events."""
        return ()

    def flow(self, value: T) -> Iterable[FlowNode]:  # noqa: ARG002 - as above
        """Return the boxes that the section adds to the drawing of the flow."""
        return ()
