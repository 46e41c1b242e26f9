"""Requested keys: who used which key in queries, and which requested keys share one column.

Some keys would fragment the table. They *collapse*: the object that holds them becomes the column, and its
JSON text serves them. An object becomes the column in place of its members (json-splitting.md §6) in these
cases:

* queries request more than ``children_max`` of its members;
* the members' names look generated (numbers, hexadecimal digits, exp_1 and exp_2);
* on average, fewer rows than ``fill_min`` have the members. A few rows do not prove this: until enough are
  examined, the object and its members stay as they are, so that small batches do not alternate between adding
  and emptying columns;
* the members lie deeper than ``depth_max``;
* queries request the object itself.

The outermost such object takes all keys below it, in any order of the requested keys. There are three
exceptions. Whitelisted keys never collapse. Members that no row contains do not count: nine misspellings
cannot remove nine columns. An object that far fewer users request than its members is *outvoted*: the members
keep their columns.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from state.columns.paths import KeyPath
from state.columns.rules import FlatRules


_NUMBERED: Final = re.compile(r"(?P<stem>.*[^0-9])[0-9]+")
_GENERATED: Final = re.compile(
    r"[0-9]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)
_DEVIATIONS: Final = 3.0
"""Width of the interval of a fill rate, in standard deviations. Every batch tests it, so it has to be
wide."""


@dataclass(frozen=True, slots=True)
class RequestedKey:
    """A key and the queries of the last days that use it.
    The defaults describe a whitelisted key that no query uses.
    """

    key: KeyPath
    users: frozenset[str] = frozenset()
    days: int = 0
    """Number of distinct days on which a query used the key."""
    count: int = 0
    first_s: int = 0
    """Time of the first query, in seconds since 1970; ``last_s`` is that of the last one."""
    last_s: int = 0


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A key that stays, together with the requests that its column serves and the keys they name."""

    requested: RequestedKey
    serves: tuple[KeyPath, ...]


@dataclass(frozen=True, slots=True)
class DisplacedKey:
    """A key that does not stay, and the reason."""

    key: KeyPath
    into: KeyPath | None
    """The key whose column serves it; None for an outvoted object, whose members have the columns."""
    reason: str


def merge_requests(key: KeyPath, group: Sequence[RequestedKey]) -> RequestedKey:
    """Return the requests of ``group`` as requests for ``key``. ``days`` is the largest value in the
    group, which is a lower bound.
    """
    return RequestedKey(
        key,
        frozenset().union(*(each.users for each in group)),
        max(each.days for each in group),
        sum(each.count for each in group),
        min(each.first_s for each in group),
        max(each.last_s for each in group),
    )


def collapse(
    requested: Iterable[RequestedKey],
    rules: FlatRules,
    fill_rates: Mapping[KeyPath, float] | None,
    live: Collection[KeyPath],
    examined: Mapping[KeyPath, int] | None,
) -> tuple[list[KeyGroup], list[DisplacedKey]]:
    """Return the keys that stay and those that do not;
    ``fill_rates``, ``live`` and ``examined`` as in ``compute_demand``.

    ``requested`` holds each key once. No key that stays lies within another one, except for whitelisted keys.
    """
    by_key = {each.key: each for each in requested}
    free = [key for key in by_key if key not in rules.whitelist]
    objects = _find_objects_by_shape(free, rules, fill_rates, live, examined)
    outvoted = _find_outvoted(free, by_key, rules).difference(objects)
    for key in (*rules.whitelist, *(key for key in free if key not in outvoted)):
        objects.setdefault(key, "queries request it as a whole")
    targets = {key: key if key in rules.whitelist else _outermost(key, objects) for key in by_key}
    groups: dict[KeyPath, list[RequestedKey]] = defaultdict(list)
    for key, into in targets.items():
        if into is not None:
            groups[into].append(by_key[key])
    displaced = [_displaced_key(key, into, objects) for key, into in targets.items() if into != key]
    return [_group(key, group) for key, group in groups.items()], displaced


def looks_generated(names: Collection[str]) -> bool:
    """Whether a program made these member names:
    numbers, hexadecimal digits, or one stem with several numbers.
    """
    stems = Counter(numbered["stem"] for name in names if (numbered := _NUMBERED.fullmatch(name)))
    return any(map(_GENERATED.fullmatch, names)) or any(count > 1 for count in stems.values())


def _find_objects_by_shape(
    keys: Iterable[KeyPath],
    rules: FlatRules,
    fill_rates: Mapping[KeyPath, float] | None,
    live: Collection[KeyPath],
    examined: Mapping[KeyPath, int] | None,
) -> dict[KeyPath, str]:
    """Return the objects that become columns regardless of who requests them, with the reason."""
    objects = {}
    members: dict[KeyPath, dict[str, float]] = defaultdict(dict)
    """For each object, the members that rows contain, with their fill rates."""
    rows: dict[KeyPath, float] = defaultdict(float)
    """For each object, the most rows searched for one of its members."""
    for key in keys:
        rate = 1.0 if fill_rates is None else fill_rates.get(key, 0.0)
        searched = math.inf if examined is None else examined.get(key, 0)
        ancestors = _ancestors(key)
        if len(ancestors) >= rules.depth_max:
            objects[ancestors[rules.depth_max - 1]] = f"its members lie deeper than {rules.depth_max}"
        for at, parent in enumerate(ancestors, 1):
            names, name = members[parent], key.members[at]
            if rate > 0.0:
                names[name] = max(rate, names.get(name, 0.0))
                rows[parent] = max(rows[parent], searched)
    for parent, filled in members.items():
        reason = _reason(filled, rows[parent], rules, is_column=parent in live)
        if not filled and parent in live:
            reason = "it is a column, and no recent row contains any of its members"
        if reason:
            objects.setdefault(parent, reason)
    return {key: reason for key, reason in objects.items() if not rules.skips(key)}


def _reason(filled: Mapping[str, float], rows: float, rules: FlatRules, *, is_column: bool) -> str:
    if len(filled) > rules.children_max:
        return f"{len(filled)} of its members are requested"
    if looks_generated(filled):
        return "names of its members look generated"
    if len(filled) > 1 and _is_sparse(sum(filled.values()) / len(filled), rows, rules, is_column=is_column):
        return f"its members are filled in fewer than {rules.fill_min:.2%} of the rows"
    return ""


def _is_sparse(rate: float, rows: float, rules: FlatRules, *, is_column: bool) -> bool:
    """Whether a fill rate observed in this number of rows is below ``fill_min``; if uncertain, return
    ``is_column``, the previous answer.
    """
    least, most = _bound_rate(rate, rows)
    return most < rules.fill_min or (is_column and least < rules.fill_min)


def _bound_rate(rate: float, rows: float) -> tuple[float, float]:
    """Return the Wilson interval of a rate."""
    if rows == math.inf:
        return rate, rate
    if not rows:
        return 0.0, 1.0
    square = _DEVIATIONS**2
    center = rate + square / (2 * rows)
    width = _DEVIATIONS * math.sqrt(rate * (1 - rate) / rows + square / (4 * rows**2))
    scale = 1 + square / rows
    return (center - width) / scale, (center + width) / scale


def _find_outvoted(
    keys: Iterable[KeyPath], by_key: Mapping[KeyPath, RequestedKey], rules: FlatRules
) -> set[KeyPath]:
    users_below: dict[KeyPath, set[str]] = defaultdict(set)
    for key in keys:
        for parent in _ancestors(key):
            users_below[parent] |= by_key[key].users
    share = rules.parent_users_share_min
    return {key for key in keys if len(by_key[key].users) < share * len(users_below.get(key, ()))}


def _outermost(key: KeyPath, objects: Mapping[KeyPath, str]) -> KeyPath | None:
    return next((each for each in (*_ancestors(key), key) if each in objects), None)


def _ancestors(key: KeyPath) -> list[KeyPath]:
    """Return the keys of the objects that hold ``key``, the outermost first."""
    return [KeyPath(key.members[:depth]) for depth in range(1, key.depth)]


def _displaced_key(key: KeyPath, into: KeyPath | None, objects: Mapping[KeyPath, str]) -> DisplacedKey:
    if into is None:
        return DisplacedKey(key, None, "many more users request its members")
    return DisplacedKey(key, into, f"the column of {into} contains it: {objects[into]}")


def _group(key: KeyPath, group: Sequence[RequestedKey]) -> KeyGroup:
    return KeyGroup(merge_requests(key, group), tuple(sorted(each.key for each in group)))
