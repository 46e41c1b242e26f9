"""What a flat table's driver has reported, as one value, and the section ``flats`` of the daemon's status that is made from it.

Events are folded one by one. A batch that is reported twice, because the driver was killed before Spark recorded its end, counts
once. A malformed event raises MalformedEvent and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from prometheus_client.core import GaugeMetricFamily

from daemon.status.metrics import families, state_family
from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from prometheus_client.metrics_core import Metric


LETTERS_MAX: Final = 32


@dataclass(frozen=True, slots=True)
class Counts:
    """Rows since the daemon's start, by what became of them."""

    batches: int = 0
    rows: int = 0
    bytes: int = 0
    malformed: int = 0
    rescued: int = 0
    misfits: int = 0


@dataclass(frozen=True, slots=True)
class DriverNews:
    """How a driver stands."""

    application: str = ""
    """Spark's name for the run."""
    batch: int | None = None
    """The last batch that is in the table."""
    told_s: float | None = None
    """Unix time of the last event of any kind."""
    batch_s: float | None = None
    """Unix time of the last batch's end."""
    watermark_s: int | None = None
    lag: Mapping[str, int] = field(default_factory=dict)
    """Records behind the last batch, by partition of the topic; empty for a source that does not tell."""
    columns: Mapping[str, int] = field(default_factory=dict)
    """Columns by state: live, empty, reused."""
    layout_version: int | None = None
    seal_backlog: int = 0
    """Hours that are due to be sealed."""
    refused_to_drop: str = ""
    counts: Counts = Counts()
    letters: Mapping[str, int] = field(default_factory=dict)
    """Dead letters since the daemon's start, by reason."""

    @property
    def lag_records(self) -> int | None:
        """Records behind, of all partitions; None where the source does not tell."""
        return sum(self.lag.values()) if self.lag else None

    def after(self, event: Mapping[str, Any], now_s: float) -> DriverNews:
        """Return the news with ``event``; raise MalformedEvent."""
        told = replace(self, told_s=now_s)
        try:
            match event["event"]:
                case "started":
                    return replace(told, application=str(event["application"])[:200])
                case "progress":
                    return _progressed(told, event, now_s)
                case "upkeep":
                    return _kept(told, event)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedEvent("an event of a driver cannot be read", reason=repr(error)[:200]) from error
        return told


def _progressed(told: DriverNews, event: Mapping[str, Any], now_s: float) -> DriverNews:
    batch, watermark = int(event["batchId"]), event["watermark"]
    done = replace(
        _kept(told, event["upkeep"]),
        batch=batch,
        batch_s=now_s,
        watermark_s=None if watermark is None else int(watermark),
        lag=_numbers(event["lag"]),
        columns=_numbers(event["columns"]),
        layout_version=int(event["layout_version"]),
    )
    return done if batch == told.batch else _counted(done, event)


def _kept(told: DriverNews, upkeep: Mapping[str, Any]) -> DriverNews:
    return replace(told, seal_backlog=int(upkeep["backlog"]), refused_to_drop=str(upkeep["refused"])[:500])


def _counted(told: DriverNews, event: Mapping[str, Any]) -> DriverNews:
    had, letters = told.counts, dict(told.letters)
    names = ("rows", "bytes", "malformed", "rescued", "misfits")
    counts = Counts(had.batches + 1, **{name: getattr(had, name) + int(event[name]) for name in names})
    for reason, count in _numbers(event["dead_letters"]).items():
        known = reason if reason in letters or len(letters) < LETTERS_MAX else "other"
        letters[known] = letters.get(known, 0) + count
    return replace(told, counts=counts, letters=letters)


def _numbers(given: Mapping[str, Any]) -> dict[str, int]:
    return {str(name)[:100]: int(value) for name, value in given.items()}


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
        "How long the flat table has been behind its topic; 0 when caught up.",
        "lag_s",
    ),
)


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


class FlatSection(StatusSection[tuple[FlatStatus, ...]]):
    """The section ``flats``."""

    key = "flats"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[FlatStatus, ...])

    def text(self, value: tuple[FlatStatus, ...], now_s: float) -> str:  # noqa: ARG002 - lags are durations already
        """Return a row for each table."""
        return table_text(_HEADER, map(_flat_row, value))

    def problems(self, value: tuple[FlatStatus, ...]) -> list[str]:
        """Return why drivers do not run."""
        return [f"flat:{flat.name}: {flat.problem}" for flat in value if flat.problem]

    def unready_reasons(self, value: tuple[FlatStatus, ...]) -> list[str]:
        """Return the drivers that do not follow their source."""
        return [f"flat:{flat.name} is {flat.state}" for flat in value if flat.state != "following"]

    def lags(self, value: tuple[FlatStatus, ...]) -> list[tuple[str, float | None]]:
        """Return how far the tables are behind their sources."""
        return [(f"flat:{flat.name}", flat.lag_s) for flat in value]

    def families(self, value: tuple[FlatStatus, ...]) -> Iterable[Metric]:
        """Yield lag and state of each table's loop."""
        yield from families(GaugeMetricFamily, _GAUGES, {"flat": [row.name for row in value]}, value)
        yield state_family(
            "tideline_flat_state", "1 for the state that the flat table's loop is in, else 0.", "flat", value
        )

    def links(self, value: tuple[FlatStatus, ...]) -> str:
        """Return links to the tables' pages."""
        links = " · ".join(f'<a href="/flat/{quote(flat.name)}">{escape(flat.table)}</a>' for flat in value)
        return f'<p><a href="/flat">flat tables</a>: {links}</p>\n' if links else ""


FLATS: Final = FlatSection()


def _flat_row(flat: FlatStatus) -> tuple[str, ...]:
    return (
        flat.table,
        flat.name,
        flat.state,
        number_text(flat.batch),
        number_text(flat.rows),
        number_text(flat.lag_records),
        duration_text(flat.lag_s),
        number_text(flat.columns),
        number_text(flat.misfits),
        number_text(flat.seal_backlog),
    )
