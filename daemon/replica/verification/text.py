"""The report of a verification as plain values, and as text."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from daemon.terminal.layout import bytes_text, number_text, table_text
from handlers.replication.verification.findings import Outcome


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.replication.verification.findings import TableResult


def report(policy: str, results: Sequence[TableResult], repaired: Sequence[str] = ()) -> dict[str, Any]:
    """Return the report as plain values; ``repaired`` are the tables whose load was requested."""
    return {
        "policy": policy,
        "loads_requested": list(repaired),
        "equal": is_equal(results),
        "counts": {str(outcome): _count(results, outcome) for outcome in Outcome},
        "tables": [_plain(result) for result in results],
    }


def is_equal(results: Sequence[TableResult]) -> bool:
    """Whether every table was compared and is equal."""
    return all(result.outcome is Outcome.EQUAL for result in results)


def _plain(result: TableResult) -> dict[str, Any]:
    values = asdict(result)
    values["outcome"] = str(result.outcome)
    values["not_compared"] = dict(result.not_compared)
    values["differences"] = [asdict(difference) for difference in result.differences]
    return values


def _count(results: Sequence[TableResult], outcome: Outcome) -> int:
    return sum(result.outcome is outcome for result in results)


def report_text(policy: str, results: Sequence[TableResult], repaired: Sequence[str] = ()) -> str:
    """Return a table of the outcomes, the differences of each table, and a summary."""
    parts = [_outcomes_text(results)]
    parts += [_details(result) for result in results if result.differences or result.reason]
    counts = [(outcome, _count(results, outcome)) for outcome in Outcome]
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts if count)
    loads = f"; loads requested: {', '.join(repaired)}" if repaired else ""
    parts.append(f"policy {policy}: {summary}{loads}")
    return "\n\n".join(part for part in parts if part)


def _outcomes_text(results: Sequence[TableResult]) -> str:
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
    return table_text(header, [_row(result) for result in results])


def _row(result: TableResult) -> tuple[str, ...]:
    skipped = ", ".join(f"{what} {count:,}" for what, count in result.not_compared)
    return (
        result.table or "(database)",
        str(result.outcome),
        "-" if result.event_id is None else str(result.event_id),
        number_text(result.difference_count),
        number_text(result.partitions),
        number_text(result.files),
        bytes_text(result.size_bytes),
        number_text(result.rows),
        skipped or "-",
    )


def _details(result: TableResult) -> str:
    lines = [f"{result.table or '(database)'}: {result.reason or result.outcome}"]
    lines += [f"  {difference}" for difference in result.differences]
    if result.difference_count > len(result.differences):
        lines.append(f"  and {result.difference_count - len(result.differences):,} more")
    return "\n".join(lines)


def progress_text(done: int, total: int, results: Sequence[TableResult], current: str) -> str:
    """Return one line of progress."""
    differing = _count(results, Outcome.DIFFERS)
    files = sum(result.files for result in results)
    return f"{done} of {total} tables, {files:,} files, {differing} differing; {current}"
