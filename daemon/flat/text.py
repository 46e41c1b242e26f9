"""Output of the commands about flat tables: events of a run, upkeep, backfills, and a plan in the form of a
diff.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from daemon.terminal.layout import bytes_text, duration_text, hour_text, left_aligned, number_text
from state.columns.changes import ChangeKind
from state.columns.demand import Verdict
from state.value_text import count_text


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from state.columns.changes import Change
    from streaming.batch.schema_evolution import Proposal
    from streaming.upkeep.backfill import BackfillResult
    from streaming.upkeep.maintenance import OpenHour, UpkeepResult


OPEN_SHOWN: Final = 10
"""Open hours shown with their reasons."""
_MARKS: Final = {
    ChangeKind.APPEND: "+",
    ChangeKind.REUSE: "+",
    ChangeKind.REVIVE: "+",
    ChangeKind.RETIRE: "-",
    ChangeKind.WIDEN: "~",
    ChangeKind.PROMOTE: "~",
    ChangeKind.REFRESH: "~",
    ChangeKind.WAIT: "?",
}


def event_text(event: Mapping[str, Any]) -> str:
    """Return one line for an event of a driver."""
    match event["event"]:
        case "started":
            return f"{event['table']}: Spark runs as {event['application']}"
        case "progress":
            return _progress_text(event)
        case "upkeep":
            return f"upkeep: {_upkeep_text(event)}"
        case "rewritten":
            return _rewritten_text(event)
        case "stopped":
            return f"stopped: {event['reason']}"
    return str(event["event"])


def _rewritten_text(event: Mapping[str, Any]) -> str:
    text = f"{hour_text(event['hour'])} {event['activity']}, {event['done']} of {event['total']}"
    is_known = event["left_s"] is not None and event["done"] < event["total"]
    return f"{text}, about {duration_text(event['left_s'])} left" if is_known else text


def _progress_text(event: Mapping[str, Any]) -> str:
    letters = sum(event["dead_letters"].values())
    parts = [
        f"batch {event['batchId']}: {count_text(event['rows'], 'row')}",
        bytes_text(event["bytes"]),
        count_text(event["columns"]["live"], "column"),
        f"{event['durations']['batch_s']:.1f} s",
    ]
    if event["misfits"]:
        parts.append(count_text(event["misfits"], "misfit"))
    if event["trailing"]:
        parts.append(f"{number_text(event['trailing'])} with text behind their document")
    if letters:
        parts.append(count_text(letters, "dead letter"))
    if event["lag"]:
        parts.append(f"{number_text(sum(event['lag'].values()))} behind")
    if event["seal_backlog"]:
        parts.append(f"{count_text(event['seal_backlog'], 'hour')} to seal")
    return ", ".join(parts)


def upkeep_text(result: UpkeepResult) -> str:
    """Return a line about a table's upkeep, and one for each of the first open hours, with the reason."""
    text = _upkeep_text(
        {
            name: getattr(result, name)
            for name in ("sealed", "backlog", "rewrites_left", "dropped", "deleted", "refused")
        }
    )
    lines = [text[0].upper() + text[1:]]
    lines += [f"{hour_text(each.hour)} is open: {_open_reason(each)}" for each in result.open[:OPEN_SHOWN]]
    if len(result.open) > OPEN_SHOWN:
        lines.append(f"and {count_text(len(result.open) - OPEN_SHOWN, 'more open hour')}")
    return "\n".join(lines)


def _open_reason(hour: OpenHour) -> str:
    if hour.reached_s is None:
        return "no event with a time has been read yet"
    if hour.reached_s >= hour.due_s:
        return "due, postponed to the next pass"
    return (
        f"sealed when events reach {_moment_text(hour.due_s)}; the latest are of "
        f"{_moment_text(hour.reached_s)}"
    )


def _moment_text(at_s: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at_s))


def _upkeep_text(counts: Mapping[str, Any]) -> str:
    parts = [f"{count_text(counts['sealed'], 'hour')} sealed"]
    for name, what in (
        ("backlog", "still to seal"),
        ("rewrites_left", "still to rewrite"),
        ("dropped", "dropped"),
    ):
        parts += [f"{count_text(counts[name], 'hour')} {what}"] if counts[name] else []
    if counts["deleted"]:
        parts.append(f"{count_text(counts['deleted'], 'old directory', 'old directories')} deleted")
    if counts["refused"]:
        parts.append(f"no hour dropped: {counts['refused']}")
    return ", ".join(parts)


def backfill_text(results: Sequence[BackfillResult]) -> str:
    """Return a line for each hour, and a line with the number of hours split again."""
    lines = [
        f"{hour_text(each.hour)}  {number_text(each.raw_rows if each.is_done else each.rows):>12} rows  "
        + _backfill_outcome(each)
        for each in results
    ]
    count = sum(each.is_done for each in results)
    lines.append(f"{count} of {len(results)} sealed hours were split again from the raw table")
    return "\n".join(lines)


def _backfill_outcome(hour: BackfillResult) -> str:
    if not hour.is_done:
        return f"unchanged: the raw table has {number_text(hour.raw_rows)}"
    if hour.is_matched:
        return "filled, other columns copied"
    return "split again" if hour.raw_rows == hour.rows else f"split again, {number_text(hour.rows)} before"


def plan_answer(table: str, proposal: Proposal) -> dict[str, Any]:
    """Return the plan as plain values."""
    evolution = proposal.evolution
    return {
        "table": table,
        "version": evolution.layout.version,
        "alters": evolution.alters,
        "changes": [*(_change(each, proposal) for each in evolution.changes), *_missing_keys(proposal)],
    }


def _missing_keys(proposal: Proposal) -> list[dict[str, Any]]:
    """Return the requested keys that no row has contained yet; each batch looks for them."""
    decisions = (proposal.demand.decisions or {}).values()
    return [
        {
            "mark": "?",
            "kind": "look for",
            "key": decision.key.text,
            "column": None,
            "type": None,
            "reason": decision.reason,
        }
        for decision in decisions
        if decision.verdict is Verdict.UNSEEN
    ]


def _change(change: Change, proposal: Proposal) -> dict[str, Any]:
    slots = proposal.evolution.layout.slots
    slot = slots[change.index] if change.index is not None and change.index < len(slots) else None
    kind = change.type or (slot.type if slot is not None else None)
    return {
        "mark": _MARKS[change.kind],
        "kind": change.kind.value,
        "key": None if change.key is None else change.key.text,
        "slot": change.index,
        "column": None if slot is None else slot.name,
        "type": None if kind is None else kind.hive,
        "former": None if slot is None else slot.former_name,
        "reason": change.reason,
    }


def plan_text(answer: Mapping[str, Any]) -> str:
    """Return the plan as a diff: ``+`` adds a column, ``-`` empties one, ``~`` changes a type, ``?`` marks a
    key that waits.
    """
    changes: Sequence[Mapping[str, Any]] = answer["changes"]
    waiting = sum(each["mark"] == "?" for each in changes)
    announced = sum(each["kind"] == ChangeKind.PROMOTE for each in changes)
    counts = [count_text(len(changes) - waiting - announced, "change")]
    if announced:
        counts.append(f"{count_text(announced, 'promotion')} announced")
    counts.append(f"{count_text(waiting, 'key')} {'waits' if waiting == 1 else 'wait'}")
    verb = "would become" if answer["alters"] else "stays at"
    head = f"{answer['table']} {verb} version {answer['version']}: {', '.join(counts)}"
    rows = [_plan_row(each) for each in sorted(changes, key=lambda each: "+~-?".index(each["mark"]))]
    return "\n".join([head, *(left_aligned(rows) if rows else ())])


def _plan_row(change: Mapping[str, Any]) -> tuple[str, str, str, str]:
    name = change["column"] or change["key"] or "*"
    verb = "promote" if change["kind"] == ChangeKind.PROMOTE else change["kind"]
    return f"{change['mark']} {verb}", str(name), str(change["type"] or ""), str(change["reason"])
