"""Which keys people want as columns, and for every other key why not.

Ranked by distinct users and days, never by the number of queries: one nightly job must not own fifty columns. Keys that would
fragment the table are *collapsed* into the object that holds them, whose JSON text then serves them (seed: foo.bar.baz1 and
foo.bar.baz2 become foo.bar). Rules: json-splitting.md §6.

A key and its ancestor are never both wanted, because one parse cannot bring both; only the whitelist may force it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from state.columns.requested_keys import DisplacedKey, KeyGroup, RequestedKey, collapse


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from state.columns.paths import KeyPath
    from state.columns.rules import FlatRules


class Verdict(StrEnum):
    """What became of a key."""

    WANTED = "wanted"
    WHITELISTED = "whitelisted"
    COLLAPSED = "collapsed"
    """An ancestor's column serves it."""
    OUTVOTED = "outvoted"
    """It is an object whose members are asked for by far more people, and have the columns."""
    NOT_ASKED = "not asked"
    SKIPPED = "skipped"
    UNSEEN = "unseen"
    """No row has brought it: a misspelling, or not yet."""
    OVER_CAP = "over the cap"
    OVER_QUOTA = "over the quota"


@dataclass(frozen=True, slots=True)
class SelectedKey:
    """A key that is to be a column."""

    key: KeyPath
    rank: int
    """From 1."""
    users: frozenset[str] = frozenset()
    days: int = 0
    count: int = 0
    serves: tuple[KeyPath, ...] = ()
    """The asked keys that it answers, itself too where asked."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What became of a key, and for what reason."""

    key: KeyPath
    verdict: Verdict
    reason: str
    rank: int | None = None
    into: KeyPath | None = None
    """The key that serves it instead."""


@dataclass(frozen=True, slots=True)
class Demand:
    """The keys wanted, in their order, those to look out for, and a reason for every key there is."""

    selected: tuple[SelectedKey, ...] = ()
    unseen: tuple[SelectedKey, ...] = ()
    """They would be wanted if any row brought them."""
    decisions: Mapping[KeyPath, Decision] = field(default_factory=dict)

    def decision_for(self, key: KeyPath) -> Decision:
        """Return what became of ``key``."""
        return self.decisions.get(key) or Decision(key, Verdict.NOT_ASKED, "nobody asked for it lately")


def compute_demand(
    asked: Iterable[RequestedKey],
    rules: FlatRules,
    fills: Mapping[KeyPath, float] | None = None,
    live: Collection[KeyPath] = (),
) -> Demand:
    """Return the demand that ``asked`` makes.

    ``fills`` holds the share of rows that bring each key, keys never seen left out; None where nothing has been looked at yet.
    ``live`` holds the keys that have a column: of two that rank alike, the one with a column keeps it, and that no row has brought
    such a key lately is no reason against it (a writer that starts anew has seen nothing; ``evolution`` tells silent ones).
    """
    whys: dict[KeyPath, Decision] = {}
    if fills is not None:
        fills = dict.fromkeys(live, 1.0) | {key: fill for key, fill in fills.items() if fill > 0.0}
    groups, moved = collapse(_unskipped(asked, rules, whys), rules, fills, live)
    whys |= {each.key: _told(each) for each in moved}
    wanted, unseen = _admitted(_ranked(groups, rules, frozenset(live)), rules, fills, whys)
    return Demand(tuple(wanted), tuple(unseen), whys)


def _unskipped(
    asked: Iterable[RequestedKey], rules: FlatRules, whys: dict[KeyPath, Decision]
) -> list[RequestedKey]:
    kept = []
    for each in asked:
        if rules.skips(each.key):
            whys[each.key] = Decision(each.key, Verdict.SKIPPED, "a pattern of the skip list")
        else:
            kept.append(each)
    return kept


def _told(moved: DisplacedKey) -> Decision:
    verdict = Verdict.OUTVOTED if moved.into is None else Verdict.COLLAPSED
    return Decision(moved.key, verdict, moved.reason, into=moved.into)


def _ranked(groups: Iterable[KeyGroup], rules: FlatRules, live: frozenset[KeyPath]) -> list[KeyGroup]:
    by_key = {each.asked.key: each for each in groups}
    listed = {key: KeyGroup(RequestedKey(key), ()) for key in rules.whitelist}
    return sorted((listed | by_key).values(), key=lambda group: _rank(group.asked, rules, live))


def _rank(asked: RequestedKey, rules: FlatRules, live: frozenset[KeyPath]) -> tuple[Any, ...]:
    is_plain, is_new = asked.key not in rules.whitelist, asked.key not in live
    return is_plain, -len(asked.users), -asked.days, is_new, -asked.count, asked.key


def _admitted(
    ranked: Iterable[KeyGroup],
    rules: FlatRules,
    fills: Mapping[KeyPath, float] | None,
    whys: dict[KeyPath, Decision],
) -> tuple[list[SelectedKey], list[SelectedKey]]:
    wanted: list[SelectedKey] = []
    unseen: list[SelectedKey] = []
    quotas = _Quotas(rules.columns_per_user_max)
    for group in ranked:
        key = group.asked.key
        is_listed = key in rules.whitelist
        if fills is not None and not is_listed and fills.get(key, 0.0) <= 0.0:
            whys[key] = Decision(key, Verdict.UNSEEN, "no row has brought it")
            unseen.append(_wanted(group, len(unseen) + 1))
        elif len(wanted) >= rules.columns_max:
            whys[key] = Decision(key, Verdict.OVER_CAP, f"{rules.columns_max} keys rank before it")
        elif not is_listed and not quotas.admits(group.asked.users):
            reason = f"who asks for it has {rules.columns_per_user_max} columns already"
            whys[key] = Decision(key, Verdict.OVER_QUOTA, reason)
        else:
            wanted.append(_wanted(group, len(wanted) + 1))
            whys[key] = _admission(wanted[-1], is_listed=is_listed)
    return wanted, unseen[: rules.candidates_max]


def _wanted(group: KeyGroup, rank: int) -> SelectedKey:
    asked = group.asked
    return SelectedKey(asked.key, rank, asked.users, asked.days, asked.count, group.serves)


def _admission(wanted: SelectedKey, *, is_listed: bool) -> Decision:
    verdict = Verdict.WHITELISTED if is_listed else Verdict.WANTED
    reason = f"rank {wanted.rank}: {_counted(len(wanted.users), 'user')} on {_counted(wanted.days, 'day')}"
    return Decision(wanted.key, verdict, reason, rank=wanted.rank)


class _Quotas:
    """Columns that each person has brought into being; a column is on the account of the one asker who has fewest."""

    def __init__(self, columns_max: int) -> None:
        self._columns_max = columns_max
        self._columns: Counter[str] = Counter()

    def admits(self, users: frozenset[str]) -> bool:
        """Put one more column on somebody's account; False where every asker's is full."""
        payer = min(users, key=lambda user: (self._columns[user], user), default="")
        if self._columns[payer] >= self._columns_max:
            return False
        self._columns[payer] += 1
        return True


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
