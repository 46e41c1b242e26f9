"""Answers about keys as text for a terminal. Keys come from users' queries, so this module escapes
unprintable characters.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Final

from daemon.keylog.answers import COLUMN_VERDICTS, Answer
from daemon.terminal.layout import aligned_lines


KEY_CHARS: Final = 80
USERS_SHOWN: Final = 3


def keys_text(answer: Answer, *, why: bool, limit: int) -> str:
    """Return the keys that are or will become columns; with ``why``, all keys with their reasons."""
    rows = [row for row in answer["keys"] if why or _is_column(row)]
    head = ("rank", "key", "column", "type", "users", "days", "queries", "last")
    lines = [_headline(answer), ""]
    lines += aligned_lines(
        (*head, "verdict", "why") if why else head, [_key_row(row, why=why) for row in rows[:limit]]
    )
    if len(rows) > limit:
        lines.append(f"{len(rows) - limit} more keys: --limit, or --json")
    if not rows:
        lines.append(
            "no key of its raw table was queried: run 'tideline keys log' to see the recorded requests"
        )
    return "\n".join(lines)


def rules_text(answer: Answer) -> str:
    """Return the decisions about keys, and who made them."""
    rows = [
        (
            rule["kind"],
            _cell(rule["key"]),
            rule["type"] or "-",
            _cell(rule["by"]) or "-",
            _moment(rule["at_s"]),
        )
        for rule in answer["rules"]
    ]
    if not rows:
        return f"{answer['table']}: no decisions about its keys"
    return "\n".join([answer["table"], "", *aligned_lines(("rule", "key", "type", "by", "at"), rows)])


def log_text(answer: Answer) -> str:
    """Return rows of the log."""
    rows = [
        (
            _moment(row["last_s"]),
            row["raw_table"],
            _cell(row["key"]),
            _cell(row["user"]) or "-",
            _cell(row["source"]),
            row["fingerprint"][:12],
            str(row["count"]),
        )
        for row in answer["entries"]
    ]
    if not rows:
        return "no matching requests are recorded"
    return "\n".join(aligned_lines(("last", "raw table", "key", "user", "source", "query", "count"), rows))


def passes_text(passes: Sequence[Answer]) -> str:
    """Return a line for each source of a pass, with its counts of unresolved and unreadable queries."""
    rows = [
        (
            each["source"],
            str(each["queries"]),
            str(each["queries_with_keys"]),
            str(each["requests"]),
            str(sum(each["unresolved"].values())),
            str(sum(each["dead"].values())),
            f"{each['took_s']:.1f} s",
        )
        for each in passes
    ]
    lines = aligned_lines(("source", "queries", "with keys", "requests", "unresolved", "dead", "took"), rows)
    for each in passes:
        for what in ("unresolved", "dead"):
            counts = ", ".join(f"{reason} {count}" for reason, count in each[what].items())
            lines += [f"{each['source']}: {what}: {counts}"] if counts else []
        lines += [
            _cell(f"{each['source']}: dead: {dead['origin']}: {dead['reason']}", 600)
            for dead in each.get("dead_inputs", ())
        ]
        lines += [_cell(f"{each['source']}: failed: {each['error']}", 600)] if each["error"] else []
    return "\n".join(lines)


def _headline(answer: Answer) -> str:
    head = (
        f"{answer['table']}: {answer['requested']} keys of {answer['raw_table']} queried in "
        f"{answer['requested_days']} days"
    )
    if answer["reasons_from"] == "driver":
        driver = _moment(answer["driver_at_s"])
        return f"{head}; {answer['columns']} of {answer['columns_max']} columns, as of {driver}"
    if answer["driver_at_s"] is None:
        return f"{head}; no driver has run yet, so it is unknown which keys rows contain"
    return f"{head}; {answer['columns']} of {answer['columns_max']} columns, with later decisions"


def _is_column(row: dict[str, Any]) -> bool:
    return row["column"] is not None or row["verdict"] in COLUMN_VERDICTS


def _key_row(row: dict[str, Any], *, why: bool) -> tuple[str, ...]:
    cells = (
        "-" if row["rank"] is None else str(row["rank"]),
        _cell(row["key"]),
        _cell(row["column"] or "-"),
        row["type"] or "-",
        _users(row["users"]),
        str(row["days"]),
        str(row["count"]),
        _moment(row["last_s"]),
    )
    return (*cells, row["verdict"], _cell(row["reason"], 400)) if why else cells


def _users(users: Sequence[str]) -> str:
    shown = ", ".join(_cell(user, 20) or "?" for user in users[:USERS_SHOWN])
    more = len(users) - USERS_SHOWN
    return f"{shown} +{more}" if more > 0 else shown or "-"


def _moment(at_s: int | None) -> str:
    return "-" if at_s is None else time.strftime("%Y-%m-%d %H:%M", time.gmtime(at_s))


def _cell(text: str, chars: int = KEY_CHARS) -> str:
    shown = "".join(each if each.isprintable() else repr(each)[1:-1] for each in text[: chars + 1])
    return shown if len(shown) <= chars else f"{shown[: chars - 1]}…"
