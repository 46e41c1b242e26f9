"""The outcome of a trial, and its text for a terminal: the columns, and the omissions with their reasons."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from daemon.terminal.layout import aligned_lines, bytes_text, number_text
from state.columns.slots import RESCUED
from state.value_text import count_text


COLUMNS_SHOWN: Final = 30
LEFT_OUT_SHOWN: Final = 20
SAMPLE_CHARS: Final = 160
_MEANINGS: Final = {
    "wrong-time": "the time is missing, has another form, is before the year 2000 or is in the future",
    "malformed": "not a JSON object; also in _rescued of its hour",
    "oversize": "longer than limits.record_bytes",
}


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial: the columns, the omissions and the paths of its files."""

    name: str
    """Name of the table in the written configuration."""
    table: Mapping[str, Any]
    """The answer about the table, as ``/api/v1/flat/TABLE`` gives it."""
    time: str
    unit: str
    raw_table: str
    """The table that the queries read; empty without queries."""
    dead_letters: Mapping[str, int]
    samples: Mapping[str, str]
    """The text of a dead letter for each reason."""
    rows_left: int
    """Rows with a time; if there are none, the trial has failed."""
    left_out: Sequence[tuple[str, str]]
    """Keys without a column, with the reason."""
    queries: Sequence[Mapping[str, Any]]
    """The query files, with the keys that each reads, and its problem."""
    directory: str
    page: str
    config: str
    spark_sql: str
    pyarrow: str


def read_samples(directory: str) -> dict[str, str]:
    """Return the text of one dead letter for each reason; none for files that cannot be read."""
    from pyarrow import ArrowException, orc

    samples: dict[str, str] = {}
    for path in sorted(Path(directory).glob("*/*.orc")):
        if path.parent.name in samples:
            continue
        try:
            texts = orc.ORCFile(path).read_stripe(0, columns=[RESCUED]).column(0)
        except (OSError, ArrowException, IndexError):
            continue
        if len(texts):
            samples[path.parent.name] = str(texts[0].as_py())[:SAMPLE_CHARS]
    return samples


def trial_text(trial: Trial) -> str:
    """Return the text for a terminal: the columns, the paths of the results, and an example query."""
    totals, columns = trial.table["totals"], [each for each in trial.table["columns"] if each["key"]]
    saving = ""
    if totals["flat_bytes"]:
        saving = (
            f"; complete hours store {bytes_text(totals['sealed_raw_bytes'])} of JSON in "
            f"{bytes_text(totals['flat_bytes'])}"
        )
    rows = [
        (
            each["name"],
            each["type"],
            "-" if each["fill"] is None else f"{each['fill']:.1%}",
            number_text(each["misfits"] or None),
            ", ".join(each["users"] or ()) or "-",
        )
        for each in columns[:COLUMNS_SHOWN]
    ]
    lines = [
        (
            f"{count_text(totals['rows'], 'event')} in {count_text(totals['partitions'], 'hour')} by "
            f"{trial.time}{saving}"
        ),
        "",
        *aligned_lines(("column", "type", "filled", "misfits", "requested by"), rows),
    ]
    if len(columns) > COLUMNS_SHOWN:
        lines.append(f"{len(columns) - COLUMNS_SHOWN} more columns are on the page")
    lines += _omissions(trial)
    lines += [
        "",
        f"page: {trial.page}",
        "",
        "Query it with Spark SQL:",
        f"  {trial.spark_sql}",
        "or with PyArrow:",
        *(f"  {line}" for line in trial.pyarrow.splitlines()),
        "",
        (
            f"To add files, move them into {trial.directory}/landing. Keys of .sql files in "
            f"{trial.directory}/queries become columns. Then run:"
        ),
        f"  tideline split run {trial.name} --once -c {shlex.quote(str(trial.config))}",
    ]
    return "\n".join(lines)


def _omissions(trial: Trial) -> list[str]:
    """Return a line for each group of rows, keys and queries that the table omits, with the reason."""
    lines: list[str] = []
    if trial.dead_letters:
        lines += ["", f"dead letters, by reason (in {trial.directory}/table/.dead-letters):"]
        lines += _dead_letter_lines(trial.dead_letters, trial.samples)
    if not trial.rows_left:
        lines += [
            "",
            f"no valid event remains: {trial.time} was read as {trial.unit!r}. Name another key with --time.",
        ]
    if trailing := trial.table["totals"]["trailing"]:
        lines += [
            "",
            f"{count_text(trailing, 'row has', 'rows have')} text after a document; it is in _rescued",
        ]
    if trial.left_out:
        listed = trial.left_out[:LEFT_OUT_SHOWN]
        lines += ["", "keys without a column:", *(f"  {key}: {reason}" for key, reason in listed)]
        if more := len(trial.left_out) - len(listed):
            lines.append(f"  and {number_text(more)} more")
    if unread := [each for each in trial.queries if each["problem"]]:
        lines += ["", f"queries read only in part, of {count_text(len(trial.queries), 'file')}:"]
        lines += [f"  {each['path']}: {each['problem']}" for each in unread[:LEFT_OUT_SHOWN]]
    return lines


def _dead_letter_lines(counts: Mapping[str, int], samples: Mapping[str, str]) -> list[str]:
    """Return a line for each reason, with the text of one of its dead letters."""
    lines = []
    for reason, count in counts.items():
        meaning = f" ({_MEANINGS[reason]})" if reason in _MEANINGS else ""
        lines.append(f"  {count:,} {reason}{meaning}")
        if reason in samples:
            lines.append(f"    for example: {samples[reason]}")
    return lines
