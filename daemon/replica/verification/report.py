"""The report of a verification: as plain values, as forms of the API, and as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from daemon.terminal.layout import bytes_text, number_text, table_text
from handlers.replication.verification.findings import Difference, Outcome, TableResult
from state.value_text import count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReport:
    """The outcome of a table, or of the database itself if ``table`` is empty."""

    table: str
    outcome: Outcome
    event_id: int | None
    """The event of the comparison of both sides."""
    differences: list[Difference]
    """The first ones."""
    difference_count: int
    not_compared: dict[str, int]
    """The numbers of objects that were not compared."""
    partitions: int
    files: int
    size_bytes: int
    rows: int | None
    reason: str | None
    """Why the table is busy, not followed or failed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationReport:
    """The outcomes of a verification."""

    policy: str
    loads_requested: list[str]
    """The tables with a load request because they differed."""
    equal: bool
    """Whether every table was compared and is equal."""
    counts: dict[str, int]
    """Numbers of tables by outcome."""
    tables: list[TableReport]
    """All tables, or only those that are not equal."""


def make_report(
    policy: str,
    results: Sequence[TableResult],
    repaired: Sequence[str] = (),
    listed: Sequence[TableResult] | None = None,
) -> dict[str, Any]:
    """Return the report of a verification as plain values (``VerificationReport``).

    ``repaired`` are the tables for which loads were requested. ``listed`` are the tables to list, by default
    all.
    """
    return {
        "policy": policy,
        "loads_requested": list(repaired),
        "equal": all(result.outcome is Outcome.EQUAL for result in results),
        "counts": {str(outcome): _count(results, outcome) for outcome in Outcome},
        "tables": [_plain(result) for result in (results if listed is None else listed)],
    }


def _plain(result: TableResult) -> dict[str, Any]:
    values = asdict(result)
    values["outcome"] = str(result.outcome)
    values["not_compared"] = dict(result.not_compared)
    values["differences"] = [asdict(difference) for difference in result.differences]
    return values


def _count(results: Sequence[TableResult], outcome: Outcome) -> int:
    return sum(result.outcome is outcome for result in results)


def report_text(report: Mapping[str, Any]) -> str:
    """Return a table of the outcomes, the differences of each table, and a summary."""
    tables = report["tables"]
    parts = [_outcomes_text(tables)] if tables else []
    parts += [_details(table) for table in tables if table["differences"] or table["reason"]]
    summary = ", ".join(f"{count} {outcome}" for outcome, count in report["counts"].items() if count)
    repaired = report["loads_requested"]
    loads = f"; loads requested: {', '.join(repaired)}" if repaired else ""
    more = sum(report["counts"].values()) - len(tables)
    left_out = f"; {count_text(more, 'table')} not listed" if more else ""
    parts.append(f"policy {report['policy']}: {summary}{loads}{left_out}")
    return "\n\n".join(parts)


def _outcomes_text(tables: Sequence[Mapping[str, Any]]) -> str:
    header = (
        "table",
        "outcome",
        "event",
        "differences",
        "partitions",
        "files",
        "bytes",
        "rows",
        "not compared",
    )
    return table_text(header, [_row(table) for table in tables])


def _row(table: Mapping[str, Any]) -> tuple[str, ...]:
    skipped = ", ".join(f"{what} {count:,}" for what, count in table["not_compared"].items())
    return (
        table["table"] or "(database)",
        table["outcome"],
        "-" if table["event_id"] is None else str(table["event_id"]),
        number_text(table["difference_count"]),
        number_text(table["partitions"]),
        number_text(table["files"]),
        bytes_text(table["size_bytes"]),
        number_text(table["rows"]),
        skipped or "-",
    )


def _details(table: Mapping[str, Any]) -> str:
    lines = [f"{table['table'] or '(database)'}: {table['reason'] or table['outcome']}"]
    lines += [f"  {Difference(**each)}" for each in table["differences"]]
    more = table["difference_count"] - len(table["differences"])
    if more:
        lines.append(f"  and {more:,} more")
    return "\n".join(lines)
