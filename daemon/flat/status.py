"""Flat tables in the daemon's status: its section ``flats``, one row for each table that this daemon runs a driver for."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from prometheus_client.core import GaugeMetricFamily

from daemon.status.metrics import families, state_family
from daemon.status.model import StatusSection
from daemon.terminal.layout import duration_text, number_text, table_text


if TYPE_CHECKING:
    from collections.abc import Iterable

    from prometheus_client.metrics_core import Metric


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
