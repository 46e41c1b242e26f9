"""The status as text for ``tideline status``: problems first, in lines of at most 80 columns.

Commands and addresses stay on one line, because users copy them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from textwrap import fill, shorten
from typing import Any, Final

from daemon.process.docs_address import with_addresses
from daemon.status.model import DaemonStatus, OperatorAction, ProjectionView, SourceStatus, StatusSection
from daemon.status.report.summary import summarise
from daemon.terminal.layout import duration_text, id_text, moment_text, number_text, table_text


COLUMNS: Final = 80
REASON_CHARS_MAX: Final = 300
"""The text cuts a longer reason; the JSON has all of it."""


def status_text(
    status: DaemonStatus, sections: Sequence[StatusSection[Any]], *, shows_all: bool = False
) -> str:
    """Return positions, lags, states and problems as aligned text. Unless ``shows_all``, omits projections
    without a deviation if there are many (``summary``).
    """
    status, summary = (status, "") if shows_all else summarise(status, sections)
    blocks = [
        _head(status),
        _needs_operator(status),
        _problems(status, sections),
        table_text(
            ("SOURCE", "EVENT", "IN TOPIC", "BEHIND", "FOR", "RELAY"), map(_source_row, status.sources)
        ),
        summary,
        table_text(
            ("PROJECTION", "SOURCE", "STATE", "POSITION", "BEHIND", "LAG", "QUARANTINED"),
            map(_projection_row, status.projections),
        ),
        *(section.text(section.of(status), status.time_s) for section in sections),
        _stages(status),
        _loading(status),
    ]
    return _join(blocks)


def problems_text(status: DaemonStatus, sections: Sequence[StatusSection[Any]]) -> str:
    """Return only states that need an operator, and the problems."""
    found = [_needs_operator(status), _problems(status, sections)]
    return _join([_head(status), *(found if any(found) else ["no problems"])])


def _join(blocks: Sequence[str]) -> str:
    return "\n\n".join(block for block in blocks if block)


def _head(status: DaemonStatus) -> str:
    if status.state == "stopped":
        return f"Tideline {status.version}: not running; last known at {moment_text(status.time_s)}"
    up = duration_text(status.time_s - status.started_s)
    return f"Tideline {status.version}: {status.state}, pid {status.pid} on {status.host}, up {up}"


def _source_row(source: SourceStatus) -> tuple[str, ...]:
    return (
        source.name,
        id_text(source.current_event_id),
        id_text(source.relayed_event_id),
        number_text(source.lag_events),
        duration_text(source.lag_s),
        source.relay_state or "elsewhere",
    )


def _projection_row(view: ProjectionView) -> tuple[str, ...]:
    return (
        view.name,
        view.source,
        view.state,
        view.position or "-",
        number_text(view.lag_events),
        duration_text(view.lag_s),
        str(len(view.quarantined)) if view.quarantined else "-",
    )


def _stages(status: DaemonStatus) -> str:
    """Return how long each stage of the last event took, if the text has only one projection."""
    if len(status.projections) != 1 or (stages := status.projections[0].stages) is None:
        return ""
    parts = ", ".join(f"{name.removesuffix('_s')} {each:.3f} s" for name, each in asdict(stages).items())
    return f"last event: visible after {stages.total_s:.3f} s ({parts})"


def _loading(status: DaemonStatus) -> str:
    views = sorted(status.projections, key=lambda view: view.place or 0)
    lines = [f"{view.name}: {table}" for view in views for table in view.loading]
    return "\n".join(["LOADING", *lines]) if lines else ""


def _problems(status: DaemonStatus, sections: Sequence[StatusSection[Any]]) -> str:
    lines = [f"{name}: no heartbeat" for name in status.stuck]
    lines += [f"source {source.name}: {source.problem}" for source in status.sources if source.problem]
    for view in status.projections:
        if view.problem:
            lines.append(f"{view.name}: {view.problem}")
        lines += _quarantined(view)
    for section in sections:
        lines += section.problems(section.of(status))
    return (
        "\n".join(
            ["PROBLEMS", *(line if line.startswith(" ") else _wrap(with_addresses(line)) for line in lines)]
        )
        if lines
        else ""
    )


def _quarantined(view: ProjectionView) -> list[str]:
    """Return two lines for each quarantined table: its reason, and the command that releases it."""
    failures = {failure.table: failure for failure in view.failures}
    lines = []
    for table in view.quarantined:
        failure = failures.get(table)
        if failure is None:
            lines.append(f"{view.name}: {table} is quarantined")
            continue
        at = "while it was loaded" if failure.event_id is None else f"at event {failure.event_id}"
        when = "" if failure.time_s is None else f" on {moment_text(failure.time_s)}"
        lines.append(f"{view.name}: {table} was quarantined {at}{when}: {failure.reason}")
        if view.repair:
            lines.append(f"  to follow the table again: {view.repair_command(table)}")
    return lines


def _needs_operator(status: DaemonStatus) -> str:
    """Return the states that need an operator, each with its reason, its command and its runbook."""
    if not status.needs_operator:
        return ""
    count = number_text(len(status.needs_operator))
    cards = (card_text(action, status.time_s) for action in status.needs_operator)
    return "\n".join([f"NEEDS AN OPERATOR ({count})", *cards])


def card_text(action: OperatorAction, now_s: float) -> str:
    """Return the text of a state that needs an operator: start, reason, command and runbook."""
    since = "" if action.since_s is None else f", for {duration_text(now_s - action.since_s)}"
    reason = shorten(with_addresses(action.reason), REASON_CHARS_MAX, placeholder=" ...")
    return "\n".join(
        [
            _wrap(f"{action.object}: {action.kind}{since}"),
            *([_wrap(reason, "    ")] if reason else ()),
            f"    run: {action.command}",
            f"    see: {with_addresses(action.look)}",
        ]
    )


def _wrap(text: str, indent: str = "") -> str:
    """Return a line wrapped at the last column, but not within a word; further lines are indented."""
    return fill(
        text,
        COLUMNS,
        initial_indent=indent,
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
