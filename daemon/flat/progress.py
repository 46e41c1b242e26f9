"""What a flat table's driver has told so far, as one value: for status, metrics, readiness and the page.

Events are folded one by one. A batch that is told twice, because the driver was killed between its end and Spark's note of it,
counts once. An event that lacks what belongs to it is refused (MalformedEvent) and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping


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
