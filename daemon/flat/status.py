"""Progress of a flat table's driver, and the section ``flats`` of the daemon's status made from it.

Each event makes a new value of the progress. A batch counts once, even if it is reported twice because the
driver died before Spark recorded its end. A malformed event raises MalformedEvent and changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Final, TypeVar
from urllib.parse import quote

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from pydantic import AfterValidator, TypeAdapter, ValidationError

from daemon.status.flow import FlowNode
from daemon.status.metrics import families, state_family
from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, id_text, number_text, table_text
from state.errors import MalformedEvent


T = TypeVar("T")
REASONS_MAX: Final = 32
"""Distinct reasons of dead letters; further ones count as ``other``."""
Name = Annotated[str, AfterValidator(lambda text: text[:100])]


@dataclass(frozen=True, slots=True)
class _Started:
    """The fields of a ``started`` event that the daemon uses."""

    application: Annotated[str, AfterValidator(lambda text: text[:200])]


@dataclass(frozen=True, slots=True)
class _Upkeep:
    """An ``upkeep`` event, and the upkeep of a ``progress`` event."""

    backlog: int
    refused: Annotated[str, AfterValidator(lambda text: text[:500])]


@dataclass(frozen=True, slots=True)
class _Batch:
    """A ``progress`` event."""

    batchId: int  # noqa: N815 - Spark's name
    rows: int
    bytes: int
    malformed: int
    trailing: int
    rescued: int
    misfits: int
    dead_letters: Mapping[Name, int]
    watermark: int | None
    lag: Mapping[Name, int]
    columns: Mapping[Name, int]
    layout_version: int
    upkeep: _Upkeep


@dataclass(frozen=True, slots=True)
class _Idle:
    """An ``idle`` event."""

    lag: Mapping[Name, int] = field(default_factory=dict)


_STARTED: Final = TypeAdapter(_Started)
_UPKEEP: Final = TypeAdapter(_Upkeep)
_BATCH: Final = TypeAdapter(_Batch)
_IDLE: Final = TypeAdapter(_Idle)


@dataclass(frozen=True, slots=True)
class Counts:
    """Batches and rows since the daemon's start, and how many rows had each problem."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    malformed: int = 0
    trailing: int = 0
    rescued: int = 0
    misfits: int = 0

    def plus(self, batch: _Batch) -> Counts:
        """Return the counts with one more batch."""
        return Counts(
            self.batches + 1,
            self.rows + batch.rows,
            self.bytes + batch.bytes,
            self.malformed + batch.malformed,
            self.trailing + batch.trailing,
            self.rescued + batch.rescued,
            self.misfits + batch.misfits,
        )


@dataclass(frozen=True, slots=True)
class DriverProgress:
    """The progress of a driver, from its events so far."""

    application: str = ""
    """Spark's name for the run."""
    batch: int | None = None
    """The last batch that is in the table."""
    reported_s: float | None = None
    """Unix time of the last event of any kind."""
    batch_s: float | None = None
    """Unix time of the last batch's end."""
    watermark_s: int | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    """Records after the last batch, by partition of the topic; empty for a source that does not report
    them."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """Columns by state: live, empty, reused."""
    layout_version: int | None = None
    seal_backlog: int = 0
    """Hours due for sealing."""
    refused_to_drop: str = ""
    counts: Counts = Counts()
    dead_letters: Mapping[str, int] = field(default_factory=dict)
    """Dead letters since the daemon's start, by reason."""

    @property
    def lag_records(self) -> int | None:
        """The number of records after the last batch, in all partitions; None if the source does not report
        it.
        """
        return sum(self.lag.values()) if self.lag else None

    def after(self, event: Mapping[str, Any], now_s: float) -> DriverProgress:
        """Return the progress with ``event``; raise MalformedEvent."""
        heard = replace(self, reported_s=now_s)
        match event["event"]:
            case "started":
                return replace(heard, application=_parse(_STARTED, event).application)
            case "progress":
                return _add_batch(heard, _parse(_BATCH, event))
            case "upkeep":
                return _add_upkeep(heard, _parse(_UPKEEP, event))
            case "idle":
                return replace(heard, lag=_parse(_IDLE, event).lag or self.lag)
        return heard


def _add_batch(before: DriverProgress, batch: _Batch) -> DriverProgress:
    progress = replace(
        _add_upkeep(before, batch.upkeep),
        batch=batch.batchId,
        batch_s=before.reported_s,
        watermark_s=batch.watermark,
        lag=batch.lag,
        columns=batch.columns,
        layout_version=batch.layout_version,
    )
    if batch.batchId == before.batch:
        return progress
    letters = dict(before.dead_letters)
    for reason, count in batch.dead_letters.items():
        shown = reason if reason in letters or len(letters) < REASONS_MAX else "other"
        letters[shown] = letters.get(shown, 0) + count
    return replace(progress, counts=before.counts.plus(batch), dead_letters=letters)


def _add_upkeep(before: DriverProgress, upkeep: _Upkeep) -> DriverProgress:
    return replace(before, seal_backlog=upkeep.backlog, refused_to_drop=upkeep.refused)


def _parse(event_type: TypeAdapter[T], event: Mapping[str, Any]) -> T:
    try:
        return event_type.validate_python(event)
    except ValidationError as error:
        raise MalformedEvent(
            "a progress event of a driver cannot be read", reason=str(error)[:200]
        ) from error


_HEADER: Final = (
    "FLAT TABLE",
    "NAME",
    "STATE",
    "BATCH",
    "ROWS",
    "BEHIND",
    "LAG",
    "COLUMNS",
    "MISFITS",
    "UNSEALED",
)
_GAUGES: Final = (
    (
        "tideline_flat_lag_seconds",
        "How long the flat table has been behind its topic; 0 if it has caught up.",
        "lag_s",
    ),
)


@dataclass(frozen=True, slots=True)
class FlatStatus:
    """One flat table: the state of its driver. Columns and keys are on the table's page."""

    name: str
    table: str
    """``db.table``."""
    state: str
    pid: int | None = None
    """The process id of the driver."""
    batch: int | None = None
    """The last batch that is in the table."""
    rows: int = 0
    """Rows since the daemon's start; misfits and dead letters count from the same time."""
    misfits: int = 0
    dead_letters: int = 0
    lag_records: int | None = None
    """Records of the topic after the last batch; None if the source does not report them."""
    lag_s: float | None = None
    columns: int | None = None
    """Columns that hold a key."""
    seal_backlog: int = 0
    watermark_s: int | None = None
    reported_s: float | None = None
    """Unix time at which the driver last reported anything."""
    problem: str | None = None
    code: str | None = None
    restarts: int = 0


class FlatSection(StatusSection[tuple[FlatStatus, ...]]):
    """The section ``flats``."""

    key = "flats"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[FlatStatus, ...])

    # ARG002: lags are durations already
    def text(self, value: tuple[FlatStatus, ...], now_s: float) -> str:  # noqa: ARG002
        """Return a row for each table."""
        return table_text(_HEADER, map(_flat_row, value))

    def problems(self, value: tuple[FlatStatus, ...]) -> list[str]:
        """Return why drivers do not run."""
        return [f"flat:{flat.name}: {flat.problem}" for flat in value if flat.problem]

    def unready_reasons(self, value: tuple[FlatStatus, ...]) -> list[str]:
        """Return the drivers that do not follow their source."""
        return [f"flat:{flat.name} is {flat.state}" for flat in value if flat.state != "following"]

    def lags(self, value: tuple[FlatStatus, ...]) -> list[tuple[str, float | None]]:
        """Return the lag of each table behind its source."""
        return [(f"flat:{flat.name}", flat.lag_s) for flat in value]

    def families(self, value: tuple[FlatStatus, ...]) -> Iterable[Metric]:
        """Yield lag and state of each table's loop."""
        yield from families(GaugeMetricFamily, _GAUGES, {"flat": [row.name for row in value]}, value)
        yield state_family(
            "tideline_flat_state",
            "1 for the current state of the flat table's loop, otherwise 0.",
            "flat",
            value,
        )

    def flow(self, value: tuple[FlatStatus, ...]) -> Iterable[FlowNode]:
        """Return a box for each table."""
        for flat in value:
            lag = f"{duration_text(flat.lag_s)} behind" if flat.lag_s else flat.state
            path = f"/flat/{quote(flat.name)}"
            yield FlowNode(kind="flat table", name=flat.table, state=flat.state, facts=(lag,), href=path)


FLATS: Final = FlatSection()


def _flat_row(flat: FlatStatus) -> tuple[str, ...]:
    return (
        flat.table,
        flat.name,
        flat.state,
        id_text(flat.batch),
        number_text(flat.rows),
        number_text(flat.lag_records),
        duration_text(flat.lag_s),
        number_text(flat.columns),
        number_text(flat.misfits),
        number_text(flat.seal_backlog),
    )
