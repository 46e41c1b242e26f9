"""Random histories: every reader always sees each key's own values, and a repeated decision changes
nothing."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from state.columns.changes import ChangeKind, Evolution
from state.columns.demand import Demand, compute_demand
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules, IntWidth
from state.columns.slot_codec import encode_columns, encode_parameters, parse_layout
from state.columns.slots import HOUR_S, Layout, SlotState
from state.columns.types import ColumnType, metastore_accepts
from tests.builders.flat.columns import a_key, fill_rates, requested_by
from tests.builders.flat.table_model import FlatWorld, Value


KEYS = ["a", "A", "b", "b.c", "hh", "d"]
MANY_KEYS = [*KEYS, "b.d", "e", "E", "f", "g"]
INTEGERS: list[Value] = [0, 1, -1, 200, 40_000, 1 << 40, 1 << 60, 1 << 70]
OTHERS: list[Value] = [True, False, 0.5, "", "text"]
VALUES = st.one_of(st.sampled_from(INTEGERS), st.sampled_from(OTHERS))
ROWS = st.dictionaries(
    st.sampled_from(KEYS).map(a_key), st.lists(VALUES, min_size=1, max_size=3).map(tuple), max_size=4
)
HOURS = st.sampled_from([1, 2, 12, 25, 49])
SWITCHES = st.fixed_dictionaries(
    {
        "int_width": st.sampled_from(list(IntWidth)),
        "exact_floats": st.booleans(),
        "booleans": st.booleans(),
        "misfit_share_max": st.sampled_from([0.0, 0.5]),
        "misfits_min": st.sampled_from([1, 50]),
        "columns_max": st.sampled_from([2, 6]),
        "refresh_hours": st.sampled_from([1, 24]),
        "whitelist": st.frozensets(st.sampled_from(KEYS).map(a_key), max_size=1),
        "pins": st.dictionaries(
            st.sampled_from(KEYS).map(a_key),
            st.sampled_from([each for each in ColumnType if each is not ColumnType.NULL]),
            max_size=2,
        ),
    }
)


class TableOverTime(RuleBasedStateMachine):
    """Hours of rows, changing requests, dropped partitions, and rewrites that are done or left undone."""

    @initialize(switches=SWITCHES)
    def begin(self, switches: dict[str, object]) -> None:
        rules = FlatRules(retention_days=1, empty_days=1, probation_values=50, **switches)  # type: ignore[arg-type]
        self.world = FlatWorld(rules)
        self.demand = Demand()

    @rule(keys=st.sets(st.sampled_from(KEYS)), users=st.sets(st.sampled_from("xyz"), min_size=1))
    def ask(self, keys: set[str], users: set[str]) -> None:
        self.demand = demand_for(self.world, keys, users)

    @rule(rows=ROWS, late=st.sampled_from([0, 0, 1, 20]), times=st.sampled_from([1, 100]))
    def write(self, rows: dict[KeyPath, tuple[Value, ...]], late: int, times: int) -> None:
        self.evolve()
        self.world.write(self.world.now_hour - late * HOUR_S, rows, times)

    @rule(hours=HOURS)
    def wait(self, hours: int) -> None:
        self.world.pass_hours(hours)

    @rule()
    def evolve(self) -> None:
        evolve(self.world, self.demand)

    @rule()
    def rewrite(self) -> None:
        rewrite(self.world, self.demand)

    @invariant()
    def every_reader_sees_every_keys_own_values(self) -> None:
        if hasattr(self, "world"):
            self.world.layout.check()
            self.world.check_readers()

    @invariant()
    def the_layout_reads_back_from_the_table(self) -> None:
        if hasattr(self, "world"):
            layout = self.world.layout
            assert parse_layout(encode_columns(layout), encode_parameters(layout)) == layout


def demand_for(world: FlatWorld, keys: set[str], users: set[str]) -> Demand:
    requested = [requested_by(each, users) for each in sorted(keys)]
    return compute_demand(requested, world.rules, fill_rates(world.book), world.layout.by_key)


def evolve(world: FlatWorld, demand: Demand) -> Evolution:
    evolution = world.decide(demand)
    check_step(world.layout, evolution, world)
    world.layout = evolution.layout
    again = world.decide(demand)
    assert not again.alters
    assert again.layout is evolution.layout
    return evolution


def rewrite(world: FlatWorld, demand: Demand) -> None:
    for task in evolve(world, demand).of(ChangeKind.PROMOTE):
        assert task.index is not None
        world.rewrite(task.index)


def check_step(before: Layout, evolution: Evolution, world: FlatWorld) -> None:
    after = evolution.layout
    after.check()
    assert evolution.alters == (after != before)
    assert after.version == before.version + evolution.alters
    assert len(after.slots) >= len(before.slots)
    reused = {change.index for change in evolution.of(ChangeKind.REUSE)}
    for old, new in zip(before.slots, after.slots, strict=False):
        assert metastore_accepts(old.type, new.type)
        if old.index in reused:
            assert old.state is SlotState.EMPTY
            files = [file for files in world.files.values() for file in files if old.index < len(file)]
            assert not any(file[old.index].values for file in files)
            assert new.former_name == old.name != new.name
        else:
            assert (old.name, old.key, old.former_name) == (new.name, new.key, new.former_name)
    seen = world.book.window()
    for slot in after.slots[len(before.slots) :]:
        assert slot.key in seen


TableOverTime.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
test_the_table_over_time = TableOverTime.TestCase


@pytest.mark.parametrize("seed", range(4))
def test_a_long_time_of_random_hours(seed: int) -> None:
    """Runs longer than the machine above, so that slots are reused repeatedly."""
    random = Random(seed)  # noqa: S311 - a repeatable random walk, not a secret
    rules = FlatRules(retention_days=2, empty_days=2, probation_values=50, misfit_share_max=0.1 * (seed % 2))
    world, demand, kinds = FlatWorld(rules), Demand(), set[ChangeKind]()
    pools: list[list[Value]] = [INTEGERS[:3], INTEGERS[:4], INTEGERS[:6], [0.5, 7], OTHERS, ["text"], [True]]
    pool_of = {key: random.choice(pools) for key in MANY_KEYS}
    fashion = MANY_KEYS[:5]
    for _ in range(500):
        if random.random() < 0.1:
            demand = demand_for(world, set(random.sample(fashion, 4)), {"x"})
        if random.random() < 0.03:
            fashion = random.sample(MANY_KEYS, 5)
        if random.random() < 0.2:
            pool_of[random.choice(MANY_KEYS)] = random.choice(pools)
        kinds.update(change.kind for change in evolve(world, demand).changes)
        if random.random() < 0.3:
            rewrite(world, demand)
        rows = {a_key(key): tuple(random.choices(pool_of[key], k=2)) for key in random.sample(MANY_KEYS, 8)}
        world.write(world.now_hour - random.choice([0, 0, 5]) * HOUR_S, rows, 30)
        world.check_readers()
        world.pass_hours(random.choice([1, 1, 1, 3, 3, 3, 30]))
    assert kinds == set(ChangeKind)
