"""The section ``external`` of the daemon's status: the copies of external tables, a row for each policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from daemon.status.actions import REPLICA
from daemon.status.metrics import families
from daemon.status.model import OperatorAction, StatusSection
from daemon.terminal.layout import bytes_text, duration_text, number_text, table_text
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from prometheus_client.metrics_core import Metric

    from daemon.config.settings.policies import PolicyConfig
    from handlers.replication.external.cycle import CycleProgress
    from handlers.replication.external.cycle_thread import ExternalThread


LISTED_MAX: Final = 100
"""Maximum number of listed directories of a policy with failed copies."""
NO_BASE: Final = "no-base"
OFF: Final = "off"
IDLE: Final = "idle"
COPYING: Final = "copying"
_COUNTERS: Final = (
    ("tideline_external_cycles", "Completed cycles over the external tables.", "cycles"),
    ("tideline_external_copied_files", "Files of external tables written on the target.", "copied"),
    (
        "tideline_external_copied_bytes",
        "Bytes of files of external tables written on the target.",
        "size_bytes",
    ),
    ("tideline_external_removed_files", "Files of external tables removed on the target.", "removed"),
)
_GAUGES: Final = (
    ("tideline_external_tables", "External tables of the last cycle.", "tables"),
    (
        "tideline_external_directories",
        "Directories of external tables in the last cycle, without nested ones.",
        "directories",
    ),
    (
        "tideline_external_problems",
        "Directories of external tables copied only in part in the last cycle.",
        "failing",
    ),
)


@dataclass(frozen=True, slots=True)
class ExternalProblem:
    """A directory whose copy is incomplete."""

    tables: tuple[str, ...]
    """``db.table`` at the source."""
    directory: str | None
    """None if the location of the table itself is unusable."""
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class ExternalStatus:
    """The external tables of one policy."""

    policy: str
    state: str
    """``starting``, ``idle``, ``copying``, ``off``, or ``no-base`` if no ``external_base`` is set."""
    complete_s: int | None = None
    """Unix time at which the last complete cycle began: every file that existed then is on the target."""
    began_s: float | None = None
    """Unix time at which the current cycle, or else the last one, began."""
    ended_s: float | None = None
    tables: int = 0
    directories: int = 0
    missing: int = 0
    """Directories that do not exist at the source."""
    files: int = 0
    cycles: int = 0
    copied: int = 0
    size_bytes: int = 0
    removed: int = 0
    failing: int = 0
    """Directories with an incomplete copy in the last cycle."""
    problem: str | None = None
    """The error that ended the last cycle early."""
    problems: tuple[ExternalProblem, ...] = ()
    """At most ``LISTED_MAX``."""


def describe_unopened(policy: str, settings: PolicyConfig) -> ExternalStatus:
    """Return the status of a policy without cycles, or whose loop has not started."""
    if settings.copies_external:
        return ExternalStatus(policy, "starting")
    return ExternalStatus(policy, OFF if settings.external_base else NO_BASE)


def describe_external(policy: str, db: str, thread: ExternalThread) -> ExternalStatus:
    """Return the status of a policy's cycles. Thread-safe."""
    running, last, totals = thread.running, thread.last, thread.totals()
    shown = running or last
    ended = () if last is None else last.problems
    return ExternalStatus(
        policy,
        IDLE if running is None else COPYING,
        complete_s=thread.last_complete_s,
        began_s=None if shown is None else shown.began_s,
        ended_s=None if shown is None else shown.ended_s,
        tables=0 if shown is None else shown.tables,
        directories=0 if shown is None else shown.directories,
        missing=0 if shown is None else shown.counts.missing,
        files=0 if shown is None else shown.counts.files,
        cycles=totals.cycles,
        copied=totals.copied,
        size_bytes=totals.size_bytes,
        removed=totals.removed,
        failing=len(ended),
        problem=_describe_error(last),
        problems=tuple(
            ExternalProblem(
                tuple(f"{db}.{table}" for table in each.tables), each.directory, each.code, each.reason
            )
            for each in ended[:LISTED_MAX]
        ),
    )


def _describe_error(last: CycleProgress | None) -> str | None:
    return None if last is None or last.error is None else str(last.error)


class ExternalSection(StatusSection[tuple[ExternalStatus, ...]]):
    """The section ``external``."""

    key = "external"
    empty = ()

    def __init__(self) -> None:
        super().__init__(tuple[ExternalStatus, ...])

    def text(self, value: tuple[ExternalStatus, ...], now_s: float) -> str:
        """Return a row for each policy that copies external tables; an empty text without such a policy."""
        header = (
            "EXTERNAL",
            "STATE",
            "COMPLETE AS OF",
            "TABLES",
            "DIRECTORIES",
            "FILES",
            "COPIED",
            "PROBLEMS",
        )
        rows = [_row(each, now_s) for each in value if each.state in {IDLE, COPYING}]
        return table_text(header, rows) if rows else ""

    def problems(self, value: tuple[ExternalStatus, ...]) -> list[str]:
        """Return the error that ended the last cycle of a policy early, for each policy. The policy repeats
        the cycle.
        """
        return [
            f"replication:{each.policy}: the last copy of external tables stopped early: {each.problem}"
            for each in value
            if each.problem
        ]

    def actions(self, value: tuple[ExternalStatus, ...]) -> Iterator[OperatorAction]:
        """Return one entry for each policy with failed copies of directories."""
        for status in value:
            if not status.problems:
                continue
            first = status.problems[0]
            name = ", ".join(first.tables[:3]) or first.directory or ""
            number = count_text(status.failing, "directory", "directories")
            yield OperatorAction(
                "failing-copy",
                f"replication:{status.policy}",
                f"{number} of external tables cannot be copied; {name}: {first.reason}",
                f"{REPLICA}#files-of-external-tables-cannot-be-copied",
                f"tideline external {status.policy}",
                None if status.ended_s is None else int(status.ended_s),
            )

    def families(self, value: tuple[ExternalStatus, ...]) -> Iterable[Metric]:
        """Yield counters and gauges labeled by policy."""
        value = tuple(each for each in value if each.state in {IDLE, COPYING})
        labels = {"policy": [row.policy for row in value]}
        yield from families(CounterMetricFamily, _COUNTERS, labels, value)
        yield from families(GaugeMetricFamily, _GAUGES, labels, value)
        complete = GaugeMetricFamily(
            "tideline_external_complete_timestamp_seconds",
            "Unix time at which the last complete cycle over the external tables began: all files that "
            "existed then are on the target.",
            labels=["policy"],
        )
        for status in value:
            if status.complete_s is not None:
                complete.add_metric([status.policy], status.complete_s)
        yield complete


EXTERNAL: Final = ExternalSection()


def _row(status: ExternalStatus, now_s: float) -> tuple[str, ...]:
    age = None if status.complete_s is None else duration_text(max(0.0, now_s - status.complete_s))
    return (
        status.policy,
        status.state,
        "never" if age is None else f"{age} ago",
        number_text(status.tables),
        number_text(status.directories),
        number_text(status.files),
        f"{number_text(status.copied)} ({bytes_text(status.size_bytes)})",
        number_text(status.failing),
    )
