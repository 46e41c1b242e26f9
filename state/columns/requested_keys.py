"""A key as people asked for it: who, on how many days, how often."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.columns.paths import KeyPath


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from state.columns.rules import FlatRules


@dataclass(frozen=True, slots=True)
class RequestedKey:
    """A key in the questions of the last days; the default has no question, as a whitelisted key may have none."""

    key: KeyPath
    users: frozenset[str] = frozenset()
    days: int = 0
    """Distinct days with a question."""
    count: int = 0
    first_s: int = 0
    """The first and the last question, in seconds since 1970."""
    last_s: int = 0


def merge_requests(key: KeyPath, group: Sequence[RequestedKey]) -> RequestedKey:
    """Return the questions of ``group`` as questions for ``key``; the days are at least those of the one with most."""
    return RequestedKey(
        key,
        frozenset().union(*(each.users for each in group)),
        max(each.days for each in group),
        sum(each.count for each in group),
        min(each.first_s for each in group),
        max(each.last_s for each in group),
    )


_NUMBERED: Final = re.compile(r"(?P<stem>.*[^0-9])[0-9]+")
_GENERATED: Final = re.compile(
    r"[0-9]+|(?=[a-fA-F]*[0-9])[0-9a-fA-F]{8,}|[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
)


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """A key that stays, with all questions that its column answers and the keys they name."""

    asked: RequestedKey
    serves: tuple[KeyPath, ...]


@dataclass(frozen=True, slots=True)
class DisplacedKey:
    """A key that does not stay, and why."""

    key: KeyPath
    into: KeyPath | None
    """The key whose column serves it; None where it is outvoted and the columns are its members'."""
    reason: str


def collapse(
    asked: Iterable[RequestedKey],
    rules: FlatRules,
    fills: Mapping[KeyPath, float] | None = None,
    live: Collection[KeyPath] = (),
) -> tuple[list[KeyGroup], list[DisplacedKey]]:
    """Return the keys that stay and those that do not; ``fills`` and ``live`` as in ``demand_of``. One ``RequestedKey`` per key comes in.

    No two keys that stay lie within each other, the whitelist aside.
    """
    by_key = {each.key: each for each in asked}
    free = [key for key in by_key if key not in rules.whitelist]
    objects = _objects_by_shape(free, rules, fills, live)
    outvoted = _outvoted(free, by_key, rules).difference(objects)
    for key in (*rules.whitelist, *(key for key in free if key not in outvoted)):
        objects.setdefault(key, "people ask for it as a whole")
    places = {key: key if key in rules.whitelist else _outermost(key, objects) for key in by_key}
    groups: dict[KeyPath, list[RequestedKey]] = defaultdict(list)
    for key, into in places.items():
        if into is not None:
            groups[into].append(by_key[key])
    moved = [_moved(key, into, objects) for key, into in places.items() if into != key]
    return [_group(key, group) for key, group in groups.items()], moved


def looks_generated(names: Collection[str]) -> bool:
    """Whether members of these names were made by a program: numbers, hexadecimal digits, or a stem with counting numbers."""
    stems = Counter(numbered["stem"] for name in names if (numbered := _NUMBERED.fullmatch(name)))
    return any(map(_GENERATED.fullmatch, names)) or any(count > 1 for count in stems.values())


def _objects_by_shape(
    keys: Iterable[KeyPath],
    rules: FlatRules,
    fills: Mapping[KeyPath, float] | None,
    live: Collection[KeyPath],
) -> dict[KeyPath, str]:
    """Return the objects that are columns whoever asks, with the reason."""
    objects = {}
    members: dict[KeyPath, dict[str, float]] = defaultdict(dict)
    """Of each object, the members that rows have brought, with the share of rows."""
    for key in keys:
        fill = 1.0 if fills is None else fills.get(key, 0.0)
        above = _above(key)
        if len(above) >= rules.depth_max:
            objects[above[rules.depth_max - 1]] = f"its members lie deeper than {rules.depth_max}"
        for at, parent in enumerate(above, 1):
            seen, name = members[parent], key.members[at]
            if fill > 0.0:
                seen[name] = max(fill, seen.get(name, 0.0))
    for parent, filled in members.items():
        reason = _reason(filled, rules)
        if not filled and parent in live:
            reason = "it is a column, and no row has brought any of the members lately"
        if reason:
            objects.setdefault(parent, reason)
    return {key: reason for key, reason in objects.items() if not rules.skips(key)}


def _reason(filled: Mapping[str, float], rules: FlatRules) -> str:
    if len(filled) > rules.children_max:
        return f"{len(filled)} of its members are asked for"
    if looks_generated(filled):
        return "names of its members look generated"
    if len(filled) > 1 and sum(filled.values()) / len(filled) < rules.fill_min:
        return f"its members are filled in fewer than {rules.fill_min:.2%} of the rows"
    return ""


def _outvoted(
    keys: Iterable[KeyPath], by_key: Mapping[KeyPath, RequestedKey], rules: FlatRules
) -> set[KeyPath]:
    users_below: dict[KeyPath, set[str]] = defaultdict(set)
    for key in keys:
        for parent in _above(key):
            users_below[parent] |= by_key[key].users
    share = rules.parent_users_share_min
    return {key for key in keys if len(by_key[key].users) < share * len(users_below.get(key, ()))}


def _outermost(key: KeyPath, objects: Mapping[KeyPath, str]) -> KeyPath | None:
    return next((each for each in (*_above(key), key) if each in objects), None)


def _above(key: KeyPath) -> list[KeyPath]:
    """The keys of the objects that hold it, the outermost first."""
    return [KeyPath(key.members[:depth]) for depth in range(1, key.depth)]


def _moved(key: KeyPath, into: KeyPath | None, objects: Mapping[KeyPath, str]) -> DisplacedKey:
    if into is None:
        return DisplacedKey(key, None, "its members are asked for by far more people")
    return DisplacedKey(key, into, f"{into} serves it: {objects[into]}")


def _group(key: KeyPath, group: Sequence[RequestedKey]) -> KeyGroup:
    return KeyGroup(merge_requests(key, group), tuple(sorted(each.key for each in group)))
