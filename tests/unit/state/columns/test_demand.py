"""Every requested key is a column or gets a reason why not, whatever queries request."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, replace
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from state.columns.demand import Demand, Verdict, compute_demand
from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey, looks_generated
from state.columns.rules import FlatRules
from tests.builders.flat.columns import a_key, requested_by


SMALL_KEYS = st.lists(st.sampled_from(["a", "b", "c", "d", "x1", "x2", "77"]), min_size=1, max_size=4).map(
    lambda names: KeyPath(tuple(names))
)
REQUESTED = st.lists(
    st.builds(
        RequestedKey,
        SMALL_KEYS,
        st.frozensets(st.sampled_from(["ann", "bob", "cem", "dee"]), min_size=1),
        st.integers(1, 5),
        st.integers(1, 9),
    ),
    unique_by=lambda each: each.key,
    max_size=25,
)
RULES = st.builds(
    FlatRules,
    columns_max=st.integers(3, 12),
    columns_per_user_max=st.integers(1, 12),
    children_max=st.integers(1, 4),
    depth_max=st.integers(1, 4),
    fill_min=st.sampled_from([0.0, 0.01, 0.5]),
    parent_users_share_min=st.sampled_from([0.0, 0.5, 1.0]),
    skip=st.sampled_from([(), ("$.a",), ("$.a.*",), ("*77*",)]),
    whitelist=st.frozensets(SMALL_KEYS, max_size=3),
)
FILLS = st.one_of(
    st.none(), st.dictionaries(SMALL_KEYS, st.sampled_from([0.0, 0.001, 0.4, 1.0]), max_size=25)
)


@given(REQUESTED, RULES, FILLS)
def test_every_requested_key_is_a_column_or_gets_a_reason(
    requested: list[RequestedKey], rules: FlatRules, fills: dict[KeyPath, float] | None
) -> None:
    demand = compute_demand(requested, rules, fills)
    selected = {each.key for each in demand.selected}
    for key in {each.key for each in requested} | rules.whitelist:
        decision = demand.decisions[key]
        assert (key in selected) == (decision.verdict in {Verdict.SELECTED, Verdict.WHITELISTED})
        assert decision.reason
        if decision.into is not None:
            assert key != decision.into
            assert key.is_within(decision.into)
            assert demand.decisions[decision.into].verdict not in {Verdict.COLLAPSED, Verdict.OUTVOTED}


@given(REQUESTED, RULES, FILLS)
def test_no_column_lies_within_another_unless_whitelisted(
    requested: list[RequestedKey], rules: FlatRules, fills: dict[KeyPath, float] | None
) -> None:
    demand = compute_demand(requested, rules, fills)
    for one, two in combinations([each.key for each in (*demand.selected, *demand.unseen)], 2):
        if one.is_within(two) or two.is_within(one):
            assert {one, two} & rules.whitelist


@given(REQUESTED, RULES, FILLS)
def test_cap_quota_and_whitelist_are_respected(
    requested: list[RequestedKey], rules: FlatRules, fills: dict[KeyPath, float] | None
) -> None:
    demand = compute_demand(requested, rules, fills)
    keys = [each.key for each in demand.selected]
    assert rules.whitelist <= set(keys)
    assert len(keys) == len(set(keys)) <= rules.columns_max
    assert [each.rank for each in demand.selected] == list(range(1, len(keys) + 1))
    for user in ("ann", "bob", "cem", "dee"):
        alone = [w for w in demand.selected if w.users == {user} and w.key not in rules.whitelist]
        assert len(alone) <= rules.columns_per_user_max
    if fills is not None:
        assert all(fills.get(key, 0.0) > 0.0 or key in rules.whitelist for key in keys)


@given(REQUESTED, RULES, FILLS, st.randoms(use_true_random=False))
def test_the_order_of_the_requests_does_not_matter(
    requested: list[RequestedKey], rules: FlatRules, fills: dict[KeyPath, float] | None, random: st.DataObject
) -> None:
    shuffled = list(requested)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert compute_demand(shuffled, rules, fills) == compute_demand(requested, rules, fills)


@given(REQUESTED, RULES, FILLS, st.frozensets(SMALL_KEYS, max_size=4))
def test_columns_serve_what_a_naive_reading_of_the_rules_says(
    requested: list[RequestedKey],
    rules: FlatRules,
    fills: dict[KeyPath, float] | None,
    live: frozenset[KeyPath],
) -> None:
    roomy = replace(rules, columns_max=1_000, columns_per_user_max=1_000)
    demand = compute_demand(requested, roomy, fills, live)
    served = {key: each.key for each in (*demand.selected, *demand.unseen) for key in each.serves}
    assert served == NaiveDemand(requested, roomy, fills, live).places()


@dataclass
class NaiveDemand:
    """Determines which column serves each requested key, by trying every object that could hold it from the
    outside in."""

    requested: list[RequestedKey]
    rules: FlatRules
    fills: dict[KeyPath, float] | None
    live: frozenset[KeyPath]

    def __post_init__(self) -> None:
        self.requested = [each for each in self.requested if not self.rules.skips(each.key)]

    def places(self) -> dict[KeyPath, KeyPath]:
        found = {each.key: self.place(each.key) for each in self.requested}
        return {key: into for key, into in found.items() if into is not None}

    def place(self, key: KeyPath) -> KeyPath | None:
        if key in self.rules.whitelist:
            return key
        ancestors = [KeyPath(key.members[:depth]) for depth in range(1, key.depth + 1)]
        return next(filter(self.is_a_column, ancestors), None)

    def is_a_column(self, key: KeyPath) -> bool:
        below = [
            each
            for each in self.requested
            if each.key != key and each.key.is_within(key) and each.key not in self.rules.whitelist
        ]
        if key in self.rules.whitelist or (self.is_forced(key, below) and not self.rules.skips(key)):
            return True
        itself = [each for each in self.requested if each.key == key]
        crowd = {user for each in below for user in each.users}
        return bool(itself) and len(itself[0].users) >= self.rules.parent_users_share_min * len(crowd)

    def is_forced(self, key: KeyPath, below: list[RequestedKey]) -> bool:
        if not below:
            return False
        fill_of: dict[str, float] = {}
        for each in below:
            name = each.key.members[key.depth]
            fill_of[name] = max(self.fill(each.key), fill_of.get(name, 0.0))
        fill_of = {name: fill for name, fill in fill_of.items() if fill}
        sparse = len(fill_of) >= 2 and sum(fill_of.values()) / len(fill_of) < self.rules.fill_min
        stays = not fill_of and key in self.live
        deep = key.depth == self.rules.depth_max
        return len(fill_of) > self.rules.children_max or looks_generated(fill_of) or sparse or stays or deep

    def fill(self, key: KeyPath) -> float:
        if self.fills is None:
            return 1.0
        return self.fills.get(key, 0.0) or float(key in self.live)


def test_a_new_writer_keeps_columns_that_it_has_not_seen_yet() -> None:
    requested = [requested_by("name"), requested_by("exp.e_1"), requested_by("exp.e_2"), requested_by("typo")]
    demand = compute_demand(requested, FlatRules(), {}, live=[a_key("name"), a_key("exp")])
    assert selected_texts(demand) == ["$.exp", "$.name"]


def selected_texts(demand: Demand) -> list[str]:
    return [each.key.text for each in demand.selected]


def test_keys_rank_by_users_and_days_and_never_by_the_number_of_queries() -> None:
    requested = [
        requested_by("cron", days=30, count=100_000),
        requested_by("crowd", "abc", 1),
        requested_by("team", "ab", 9),
    ]
    assert selected_texts(compute_demand(requested, FlatRules())) == ["$.crowd", "$.team", "$.cron"]


def test_of_two_keys_with_equal_rank_the_one_with_a_column_keeps_it() -> None:
    requested = [requested_by("new", count=9), requested_by("old", count=1)]
    demand = compute_demand(requested, FlatRules(columns_max=1), live=[a_key("old")])
    assert selected_texts(demand) == ["$.old"]
    assert demand.decisions[a_key("new")].verdict is Verdict.OVER_CAP


def test_the_example_of_the_seed_collapses_into_its_object() -> None:
    demand = compute_demand(
        [requested_by("foo.bar.baz1", "a"), requested_by("foo.bar.baz2", "b")], FlatRules()
    )
    assert selected_texts(demand) == ["$.foo.bar"]
    assert demand.selected[0].users == {"a", "b"}
    assert demand.decisions[a_key("foo.bar.baz1")].into == a_key("foo.bar")


def test_more_members_than_allowed_collapse_and_fewer_do_not() -> None:
    nine = [requested_by(f"action.{name}") for name in "abcdefghi"]
    assert selected_texts(compute_demand(nine, FlatRules())) == ["$.action"]
    assert len(compute_demand(nine[:8], FlatRules()).selected) == 8


def test_misspelled_members_do_not_collapse_anything() -> None:
    requested = [requested_by("action.name"), *(requested_by(f"action.nam{c}") for c in "bcdfghijk")]
    demand = compute_demand(requested, FlatRules(), {a_key("action.name"): 0.5})
    assert selected_texts(demand) == ["$.action.name"]
    assert {each.key for each in demand.unseen} == {each.key for each in requested[1:]}


def test_an_object_requested_by_few_users_does_not_replace_the_columns_of_many() -> None:
    crowd = [f"user {n}" for n in range(20)]
    demand = compute_demand([requested_by("action", "z"), requested_by("action.name", crowd)], FlatRules())
    assert selected_texts(demand) == ["$.action.name"]
    assert demand.decisions[a_key("action")].verdict is Verdict.OUTVOTED
    few = compute_demand([requested_by("action", crowd[:2]), requested_by("action.name", crowd)], FlatRules())
    assert selected_texts(few) == ["$.action"]


def test_the_whitelist_may_force_a_key_and_its_ancestor() -> None:
    rules = FlatRules(whitelist=frozenset({a_key("action.name")}))
    demand = compute_demand(
        [requested_by("action"), requested_by("action.name"), requested_by("action.kind")], rules
    )
    assert selected_texts(demand) == ["$.action.name", "$.action"]
    assert demand.decisions[a_key("action.kind")].into == a_key("action")


def test_sparse_members_collapse_only_together() -> None:
    fills = {a_key("a.b"): 0.001, a_key("a.c"): 0.002, a_key("z.b"): 0.001}
    demand = compute_demand(
        [requested_by("a.b"), requested_by("a.c"), requested_by("z.b")],
        FlatRules(),
        fills | {a_key("a"): 0.003},
    )
    assert sorted(selected_texts(demand)) == ["$.a", "$.z.b"]


def test_one_user_with_a_thousand_keys_fills_only_that_users_quota() -> None:
    flood = [
        requested_by(f"k{chr(97 + n % 26)}{chr(97 + n // 26)}", ["mallory"], days=30) for n in range(600)
    ]
    demand = compute_demand([*flood, requested_by("real", ["ann"])], FlatRules(columns_per_user_max=50))
    assert len(demand.selected) == 51
    assert demand.decisions[a_key("real")].verdict is Verdict.SELECTED
    refused = [each for each in flood if demand.decisions[each.key].verdict is Verdict.OVER_QUOTA]
    assert len(refused) == 550


@pytest.mark.parametrize(
    ("names", "is_generated"),
    [
        ({"0", "1"}, True),
        ({"77"}, True),
        ({"deadbeef01"}, True),
        ({"123e4567-e89b-12d3-a456-426614174000"}, True),
        ({"exp_1", "exp_22"}, True),
        ({"exp_1"}, False),
        ({"address1", "md5"}, False),
        ({"name", "language"}, False),
        ({"facade", "deadbeef"}, False),
        (set(), False),
    ],
)
def test_generated_names_are_distinguished_from_words(names: set[str], is_generated: bool) -> None:
    assert looks_generated(names) is is_generated


@given(rate=st.floats(0.002, 0.05), seed=st.integers(0, 1_000))
@settings(max_examples=30, deadline=None)
def test_small_batches_do_not_make_an_object_and_its_members_columns_in_turns(rate: float, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a repeatable sequence, not a secret
    requested = [requested_by("error.code"), requested_by("error.text")]
    live: list[KeyPath] = []
    layouts = []
    rows = values = 0
    for _ in range(60):
        rows += 20
        values += sum(chance.random() < rate for _ in range(20))
        keys = [a_key("error"), *(each.key for each in requested)]
        fills, examined = dict.fromkeys(keys, values / rows), dict.fromkeys(keys, rows)
        demand = compute_demand(requested, FlatRules(), fills, live, examined)
        live = [each.key for each in demand.selected] if values else []
        layouts.append(tuple(live))
    changes = [after for before, after in itertools.pairwise(layouts) if before and before != after]
    assert len(changes) <= 1


def test_few_rows_neither_collapse_members_nor_split_their_object_again() -> None:
    requested = [requested_by("error.code"), requested_by("error.text")]
    keys = [each.key for each in requested]

    def selected(values: int, rows: int, live: list[KeyPath]) -> list[str]:
        seen = [a_key("error"), *keys]
        fills, examined = dict.fromkeys(seen, values / rows), dict.fromkeys(seen, rows)
        return selected_texts(compute_demand(requested, FlatRules(), fills, live, examined))

    assert selected(1, 200, []) == ["$.error.code", "$.error.text"]
    assert selected(1, 200, [a_key("error")]) == ["$.error"]
    assert selected(1, 10_000, keys) == ["$.error"]
    assert selected(300, 10_000, [a_key("error")]) == ["$.error.code", "$.error.text"]


def test_members_that_were_found_in_an_unknown_number_of_rows_do_not_change_what_is_a_column() -> None:
    requested = [requested_by(f"a.{name}") for name in ("name", "size")]
    fills = dict.fromkeys((each.key for each in requested), 0.0001)
    assert selected_texts(compute_demand(requested, FlatRules(), fills, [], {})) == ["$.a.name", "$.a.size"]
    assert selected_texts(compute_demand(requested, FlatRules(), fills, [a_key("a")], {})) == ["$.a"]
