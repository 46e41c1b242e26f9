"""Answers about the keys of a flat table: who queries them, and why each is a column or not.

Reasons come from one of two sources, and the answer names it. The Spark driver, which knows the rows, saves
its reasons with the snapshot of the table after each batch. If the driver has not run yet, or a user has
decided about a key since then, this module applies the rules to the current demand, without knowing the rows.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from daemon.keylog.settings import KeyedTable
from state.columns.changes import ChangeKind
from state.columns.demand import Demand, SelectedKey, Verdict, compute_demand
from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey
from state.columns.rules import FlatRules
from state.columns.types import ColumnType
from state.errors import BadInput
from streaming.keylog.key_rules import (
    KeyRule,
    KeyRuleSet,
    RuleKind,
    group_rules,
    read_rules,
    remove_rule,
    set_rule,
)
from streaming.keylog.log import KeyLog
from streaming.keylog.log_reader import LogFilter, read_entries, read_last_request_days, read_requested_keys
from streaming.keylog.records import DAY_S
from streaming.keylog.table_snapshots import TableSnapshot, read_snapshot


Answer = dict[str, Any]
PROMOTING: Final = "promoting"
"""Verdict for a key whose column is about to become STRING; the reason says why and when."""
COLUMN_VERDICTS: Final = frozenset({Verdict.SELECTED.value, Verdict.WHITELISTED.value})

_FORMER_VERDICTS: Final = {"wanted": Verdict.SELECTED.value, "not asked": Verdict.NOT_REQUESTED.value}
"""Verdicts in snapshots of earlier drivers."""


@dataclass(frozen=True, slots=True)
class _KeyFacts:
    """The rules, decisions, requests and last snapshot of a flat table."""

    rules: FlatRules
    decided: tuple[KeyRule, ...]
    requested: Mapping[str, RequestedKey]
    """The requested keys by their texts. ``last_days`` has the same keys."""
    last_days: Mapping[str, int]
    snapshot: TableSnapshot | None

    @property
    def columns(self) -> dict[str, Mapping[str, Any]]:
        """The live columns of the driver's snapshot, by the texts of their keys."""
        if self.snapshot is None:
            return {}
        columns = self.snapshot.document.get("columns", ())
        return {each["key"]: each for each in columns if each.get("key") and each.get("state") == "live"}

    @property
    def is_driver_current(self) -> bool:
        """Whether the driver's snapshot is newer than every decision."""
        if self.snapshot is None:
            return False
        return all(rule.set_at_s <= self.snapshot.updated_at_s for rule in self.decided)


def read_keys(log: KeyLog, flat: KeyedTable) -> Answer:
    """Return every key of the flat table, columns first and by rank, each with its verdict and the reason."""
    facts = _read_known(log, flat)
    reasons = _driver_reasons(facts) if facts.is_driver_current else {}
    demand = compute_demand(facts.requested.values(), facts.rules, None, list(_parse_keys(facts.columns)))
    computed = _computed_reasons(demand)
    groups = {each.key.text: each for each in demand.selected}
    keys = {*facts.requested, *facts.last_days, *computed, *facts.columns}
    rows = [
        _row(text, reasons.get(text) or computed.get(text) or {}, groups.get(text), facts) for text in keys
    ]
    return {
        "table": flat.table,
        "raw_table": flat.raw_table,
        "requested_days": facts.rules.requested_days,
        "requested": len(facts.requested),
        "columns": len(facts.columns),
        "columns_max": facts.rules.columns_max,
        "reasons_from": "driver" if facts.is_driver_current else "rules",
        "driver_at_s": None if facts.snapshot is None else facts.snapshot.updated_at_s,
        "keys": sorted(rows, key=_sort_key),
    }


def list_rules(log: KeyLog, flat: KeyedTable) -> Answer:
    """Return the decisions about the flat table's keys, from the configuration and from users."""
    configured = flat.rules
    configured_rules: list[tuple[str, str, str | None]] = [
        ("always", key.text, None) for key in sorted(configured.whitelist)
    ]
    configured_rules += [("skip", pattern, None) for pattern in configured.skip]
    configured_rules += [
        ("pin", key.text, pinned.name.lower()) for key, pinned in sorted(configured.pins.items())
    ]
    rows: list[Answer] = [
        {"kind": kind, "key": text, "type": pinned, "by": "configuration", "at_s": None}
        for kind, text, pinned in configured_rules
    ]
    rows += [
        {
            "kind": rule.kind.value,
            "key": rule.text,
            "type": None if rule.type is None else rule.type.name.lower(),
            "by": rule.set_by,
            "at_s": rule.set_at_s,
        }
        for rule in read_rules(log, flat.table)
    ]
    return {"table": flat.table, "rules": rows}


def read_log(log: KeyLog, log_filter: LogFilter, limit: int) -> Answer:
    """Return rows of the key log, the newest first."""
    rows = [
        dataclasses.asdict(entry) | {"key": entry.key.text, "day": _day_text(entry.day)}
        for entry in read_entries(log, log_filter, limit)
    ]
    return {"days": log_filter.days, "entries": rows}


def save_decision(
    log: KeyLog,
    flat: KeyedTable,
    kind: str,
    subject: KeyPath | str,
    type_name: str | None,
    by: str,
    *,
    remove: bool,
) -> Answer:
    """Store or remove a decision about a key of the flat table (``skip``: about a pattern of keys).

    If the table's rules would then contradict each other, stores nothing and raises ConfigError.
    """
    pinned = None if type_name is None else ColumnType[type_name.upper()]
    rule = KeyRule(flat.table, RuleKind(kind), subject, pinned, set_by=by)
    removed = None
    if remove:
        removed = remove_rule(log, rule.flat_table, rule.kind, rule.text)
    else:
        _add_rule(rule, read_rules(log, flat.table)).apply_to(flat.rules)
        set_rule(log, rule)
    return {"table": flat.table, "kind": kind, "key": rule.text, "type": type_name, "removed": removed}


def _add_rule(rule: KeyRule, others: Iterable[KeyRule]) -> KeyRuleSet:
    return group_rules([*(each for each in others if not rule.replaces(each)), rule])


def _read_known(log: KeyLog, flat: KeyedTable) -> _KeyFacts:
    decided = tuple(read_rules(log, flat.table))
    rules = group_rules(decided).apply_to(flat.rules)
    requested = {
        each.key.text: each for each in read_requested_keys(log, flat.raw_table, rules.requested_days)
    }
    last_days = {key.text: day for key, day in read_last_request_days(log, flat.raw_table).items()}
    return _KeyFacts(rules, decided, requested, last_days, read_snapshot(log, flat.table))


def _driver_reasons(facts: _KeyFacts) -> dict[str, Mapping[str, Any]]:
    assert facts.snapshot is not None
    document = facts.snapshot.document
    reasons: dict[str, Mapping[str, Any]] = {
        each["key"]: {**each, "verdict": _FORMER_VERDICTS.get(each["verdict"], each["verdict"])}
        for each in document.get("keys", ())
    }
    for each in document.get("waiting", ()):
        rank = reasons.get(each["key"], {}).get("rank")
        verdict = PROMOTING if each.get("kind") == ChangeKind.PROMOTE else "waiting"
        reasons[each["key"]] = {"verdict": verdict, "reason": each["reason"], "rank": rank}
    return reasons


def _computed_reasons(demand: Demand) -> dict[str, Mapping[str, Any]]:
    return {
        decision.key.text: {
            "verdict": decision.verdict.value,
            "reason": decision.reason,
            "rank": decision.rank,
            "into": None if decision.into is None else decision.into.text,
        }
        for decision in demand.decisions.values()
    }


def _parse_keys(texts: Iterable[str]) -> Iterable[KeyPath]:
    for text in texts:
        try:
            yield KeyPath.of_json_path(text)
        except BadInput:  # written by a newer driver: list the key, but rank it as a new one
            continue


def _row(text: str, decision: Mapping[str, Any], group: SelectedKey | None, facts: _KeyFacts) -> Answer:
    """Return the row of a key, whose counts include the requests for the keys that it serves."""
    requested, column = facts.requested.get(text), facts.columns.get(text) or {}
    counted = group or requested
    return {
        "key": text,
        "verdict": decision.get("verdict", Verdict.NOT_REQUESTED.value),
        "reason": decision.get("reason") or _describe_silence(text, facts),
        "rank": decision.get("rank"),
        "into": decision.get("into"),
        "serves": [key.text for key in group.serves] if group else [],
        "column": column.get("name"),
        "type": column.get("type"),
        "fill": column.get("fill"),
        "users": sorted(counted.users) if counted else [],
        "days": counted.days if counted else 0,
        "count": counted.count if counted else 0,
        "last_s": _last_s(text, group, facts),
    }


def _last_s(text: str, group: SelectedKey | None, facts: _KeyFacts) -> int | None:
    served = [text, *(key.text for key in group.serves)] if group else [text]
    times = [facts.requested[each].last_s for each in served if each in facts.requested]
    if times:
        return max(times)
    return facts.last_days[text] * DAY_S if text in facts.last_days else None


def _describe_silence(text: str, facts: _KeyFacts) -> str:
    last_day = facts.last_days.get(text)
    if last_day is None:
        return "not queried"
    return f"last queried on {_day_text(last_day)}; {facts.rules.requested_days} days count"


def _day_text(day: int) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(day * DAY_S))


def _sort_key(row: Answer) -> tuple[Any, ...]:
    is_column = row["column"] is not None or row["verdict"] in COLUMN_VERDICTS
    rank = row["rank"]
    return not is_column, rank is None, rank or 0, -len(row["users"]), -row["days"], row["key"]
