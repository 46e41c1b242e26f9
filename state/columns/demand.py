"""Query demand: decides which requested keys become columns, and gives a reason for every other key.

Keys rank by distinct users and days, never by the number of queries: one nightly job cannot occupy fifty
columns. Keys that would fragment the table collapse into the object that holds them (``requested_keys``):
foo.bar.baz1 and foo.bar.baz2 become foo.bar. Rules: json-splitting.md §6.

A key and its ancestor are never both selected, because one parse cannot extract both. Only the whitelist may
force both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from state.columns.paths import KeyPath
from state.columns.requested_keys import DisplacedKey, KeyGroup, RequestedKey, collapse
from state.columns.rules import FlatRules


class Verdict(StrEnum):
    """Whether a key becomes a column. The values are part of stored snapshots and of the JSON API."""

    SELECTED = "selected"
    WHITELISTED = "whitelisted"
    COLLAPSED = "collapsed"
    """An ancestor's column serves it."""
    OUTVOTED = "outvoted"
    """It is an object whose members far more users request; the members have the columns."""
    NOT_REQUESTED = "not requested"
    SKIPPED = "skipped"
    UNSEEN = "unseen"
    """No row contains it: a misspelling, or a key that has not arrived yet."""
    OVER_CAP = "over the cap"
    OVER_QUOTA = "over the quota"


@dataclass(frozen=True, slots=True)
class SelectedKey:
    """A key that should be a column."""

    key: KeyPath
    rank: int
    """The key's place by demand, from 1."""
    users: frozenset[str] = frozenset()
    days: int = 0
    count: int = 0
    serves: tuple[KeyPath, ...] = ()
    """The requested keys served by its column, including itself if requested."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision for a key, and the reason."""

    key: KeyPath
    verdict: Verdict
    reason: str
    rank: int | None = None
    into: KeyPath | None = None
    """The key that serves it instead."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The selected keys by rank, the keys to search rows for, and a decision for every key."""

    selected: tuple[SelectedKey, ...] = ()
    unseen: tuple[SelectedKey, ...] = ()
    """Keys to select once a row contains them."""
    decisions: Mapping[KeyPath, Decision] = field(default_factory=dict)


def compute_demand(
    requested: Iterable[RequestedKey],
    rules: FlatRules,
    fill_rates: Mapping[KeyPath, float] | None = None,
    live: Collection[KeyPath] = (),
    examined: Mapping[KeyPath, int] | None = None,
) -> Demand:
    """Return the demand that follows from the requested keys.

    ``fill_rates`` holds the share of rows that contain each key, without the keys that no row contains; it is
    None before any rows were examined. ``live`` holds the keys that have a column. Of two keys that rank
    alike, the one with a column keeps it. A key with a column does not count as unseen: a writer that has
    just started has seen no rows (``evolution`` retires silent columns). ``examined`` holds the number of
    rows behind each fill rate; without it, the rates count as exact.
    """
    decisions: dict[KeyPath, Decision] = {}
    if fill_rates is not None:
        fill_rates = dict.fromkeys(live, 1.0) | {key: rate for key, rate in fill_rates.items() if rate > 0.0}
    groups, displaced = collapse(
        _without_skipped(requested, rules, decisions), rules, fill_rates, live, examined
    )
    decisions |= {each.key: _decision(each) for each in displaced}
    selected, unseen = _select(_rank(groups, rules, frozenset(live)), rules, fill_rates, decisions)
    return Demand(tuple(selected), tuple(unseen), decisions)


def _without_skipped(
    requested: Iterable[RequestedKey], rules: FlatRules, decisions: dict[KeyPath, Decision]
) -> list[RequestedKey]:
    others = []
    for each in requested:
        if rules.skips(each.key):
            decisions[each.key] = Decision(each.key, Verdict.SKIPPED, "matches a pattern of the skip list")
        else:
            others.append(each)
    return others


def _decision(displaced: DisplacedKey) -> Decision:
    verdict = Verdict.OUTVOTED if displaced.into is None else Verdict.COLLAPSED
    return Decision(displaced.key, verdict, displaced.reason, into=displaced.into)


def _rank(groups: Iterable[KeyGroup], rules: FlatRules, live: frozenset[KeyPath]) -> list[KeyGroup]:
    by_key = {each.requested.key: each for each in groups}
    listed = {key: KeyGroup(RequestedKey(key), ()) for key in rules.whitelist}
    return sorted((listed | by_key).values(), key=lambda group: _sort_key(group.requested, rules, live))


def _sort_key(requested: RequestedKey, rules: FlatRules, live: frozenset[KeyPath]) -> tuple[Any, ...]:
    is_plain, is_new = requested.key not in rules.whitelist, requested.key not in live
    return is_plain, -len(requested.users), -requested.days, is_new, -requested.count, requested.key


def _select(
    ranked: Iterable[KeyGroup],
    rules: FlatRules,
    fill_rates: Mapping[KeyPath, float] | None,
    decisions: dict[KeyPath, Decision],
) -> tuple[list[SelectedKey], list[SelectedKey]]:
    selected: list[SelectedKey] = []
    unseen: list[SelectedKey] = []
    quotas = _Quotas(rules.columns_per_user_max)
    for group in ranked:
        key = group.requested.key
        is_listed = key in rules.whitelist
        if fill_rates is not None and not is_listed and fill_rates.get(key, 0.0) <= 0.0:
            decisions[key] = Decision(key, Verdict.UNSEEN, "no row contains it")
            unseen.append(_selected_key(group, len(unseen) + 1))
        elif len(selected) >= rules.columns_max:
            decisions[key] = Decision(key, Verdict.OVER_CAP, f"{rules.columns_max} keys have a higher rank")
        elif not is_listed and not quotas.charge(group.requested.users):
            reason = f"each of its users already has {rules.columns_per_user_max} columns"
            decisions[key] = Decision(key, Verdict.OVER_QUOTA, reason)
        else:
            selected.append(_selected_key(group, len(selected) + 1))
            decisions[key] = _acceptance(selected[-1], is_listed=is_listed)
    return selected, unseen[: rules.candidates_max]


def _selected_key(group: KeyGroup, rank: int) -> SelectedKey:
    requested = group.requested
    return SelectedKey(requested.key, rank, requested.users, requested.days, requested.count, group.serves)


def _acceptance(selected: SelectedKey, *, is_listed: bool) -> Decision:
    verdict = Verdict.WHITELISTED if is_listed else Verdict.SELECTED
    users, days = _pluralize(len(selected.users), "user"), _pluralize(selected.days, "day")
    return Decision(selected.key, verdict, f"rank {selected.rank}: {users} on {days}", rank=selected.rank)


class _Quotas:
    """Counts the columns charged to each user. Each column counts for the one of its users who has the fewest
    columns.
    """

    def __init__(self, columns_max: int) -> None:
        self._columns_max = columns_max
        self._columns: Counter[str] = Counter()

    def charge(self, users: frozenset[str]) -> bool:
        """Charge one more column to one of ``users``;
        return False if all of them have reached their quota.
        """
        payer = min(users, key=lambda user: (self._columns[user], user), default="")
        if self._columns[payer] >= self._columns_max:
            return False
        self._columns[payer] += 1
        return True


def _pluralize(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
