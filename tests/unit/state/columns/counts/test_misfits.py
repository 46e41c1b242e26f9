"""A promotion to STRING follows only from values that no numeric type holds, weighed over the window by their
counts."""

from __future__ import annotations

import json
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.columns.changes import ChangeKind, RetainedValues, decide_type_change
from state.columns.counts.hour_counts_json import hour_counts_from_json, hour_counts_to_json
from state.columns.counts.observations import (
    DAY_S,
    HourCounts,
    KeyCounts,
    Observations,
)
from state.columns.counts.promotion import NO_MISFITS, MisfitCounts
from state.columns.rules import FlatRules
from state.columns.slots import HOUR_S
from state.columns.types import NOTHING, ColumnType, Evidence, integers
from state.errors import StateCorrupt
from tests.builders.flat.columns import FLOATS, T0, TEXT, a_key, a_slot, misfit_counts
from tests.builders.flat.table_model import Value, evidence_of, fits


RETAINED = RetainedValues.of([{1: 5}])
NUMBERS = [ColumnType.TINYINT, ColumnType.SMALLINT, ColumnType.INT, ColumnType.BIGINT, ColumnType.DOUBLE]
VALUES = st.sampled_from([0, 200, 40_000, 1 << 40, (1 << 53) + 1, 1 << 62, 1 << 63, 0.5, "x", True])


def count(hours: dict[int, list[Value]], column_type: ColumnType) -> HourCounts:
    """Observe values as the writer does: fitting values by the footer, misfits from the sample."""
    seen = {}
    for hour, values in hours.items():
        total = KeyCounts(evidence=NOTHING)
        for value in values:
            evidence = evidence_of([value])
            is_fit = fits(value, column_type)
            kinds = NO_MISFITS if is_fit else MisfitCounts.of_value(evidence)
            shown = evidence if evidence.is_within_64_bits else TEXT
            total = total.join(KeyCounts(1, int(is_fit), int(not is_fit), shown, kinds))
        seen[hour] = Observations(len(values), 0, {a_key("n"): total})
    return HourCounts(seen)


@given(
    st.sampled_from(NUMBERS),
    st.dictionaries(
        st.integers(0, 99).map(lambda hour: T0 + hour * HOUR_S),
        st.lists(VALUES, min_size=1, max_size=9),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.5]),
)
def test_a_promotion_follows_from_the_values_that_fit_no_wider_number(
    column_type: ColumnType, hours: dict[int, list[Value]], misfits_min: int, share: float
) -> None:
    rules = FlatRules(misfits_min=misfits_min, misfit_share_max=share)
    window = count(hours, column_type).window()[a_key("n")]
    slot = a_slot(1, "n", column_type)
    change = decide_type_change(slot, window, RETAINED, rules)
    values = [value for each in hours.values() for value in each]
    unfit = [value for value in values if not fits_wider(value, column_type)]
    if change is not None and change.kind is ChangeKind.WIDEN:
        assert change.type is not None
        assert any(not fits(value, column_type) and fits(value, change.type) for value in values)
        return
    is_justified = len(unfit) >= misfits_min and len(unfit) / len(values) > share
    expected = None if not unfit else ChangeKind.PROMOTE if is_justified else ChangeKind.WAIT
    assert (None if change is None else change.kind) == expected
    if change is not None:
        with_misfit = [hour for hour, each in hours.items() if any(value in unfit for value in each)]
        assert f"{len(unfit)} of {len(values)} values" in change.reason
        assert f"in at least {len(with_misfit)} hour" in change.reason


def fits_wider(value: Value, column_type: ColumnType) -> bool:
    """Whether the column, or a wider integer, holds the value; BIGINT stands for all integer types."""
    return fits(value, ColumnType.BIGINT if column_type.is_integer else column_type)


@given(misfit_counts(), st.integers(0, 30))
def test_a_limit_keeps_at_most_that_many_values(counts: MisfitCounts, limit: int) -> None:
    limited = counts.limit(limit)
    limited.check()
    assert limited.total == min(limit, counts.total)
    assert limited.others <= counts.others


def test_integers_that_outgrew_their_width_never_promote_a_column() -> None:
    many = count({T0: [*[1, 1 << 40] * 50, "x"]}, ColumnType.INT).window()[a_key("n")]
    widened = decide_type_change(a_slot(1, "n", ColumnType.INT), many, RETAINED, FlatRules())
    assert widened is not None
    assert (widened.kind, widened.type) == (ChangeKind.WIDEN, ColumnType.BIGINT)
    after = decide_type_change(
        a_slot(1, "n", ColumnType.BIGINT), many, RETAINED, FlatRules(misfit_share_max=0.0)
    )
    assert after is not None
    assert after.kind is ChangeKind.WAIT
    assert after.reason.startswith("1 of 101 values (0.9901%) do not fit bigint: 1 not numeric")


def test_fractions_that_made_a_column_double_are_no_evidence_for_text() -> None:
    window = count({T0: [*[7, 0.5] * 100, "x"]}, ColumnType.INT).window()[a_key("n")]
    change = decide_type_change(a_slot(1, "n", ColumnType.DOUBLE), window, RETAINED, FlatRules())
    assert change is not None
    assert change.kind is ChangeKind.WAIT
    assert change.reason.startswith("1 of 201 values")


def test_a_tiny_late_hour_weighs_what_its_values_weigh() -> None:
    hours: dict[int, list[Value]] = {T0: [1] * 6_600, T0 - DAY_S: ["x"]}
    window = count(hours, ColumnType.INT).window()[a_key("n")]
    rules = FlatRules(misfits_min=1)
    change = decide_type_change(a_slot(1, "n", ColumnType.INT), window, RETAINED, rules)
    assert change is not None
    assert change.kind is ChangeKind.WAIT


def test_a_column_that_really_turns_to_text_is_promoted() -> None:
    window = count({T0: [1] * 6_600, T0 + HOUR_S: ["x"] * 100}, ColumnType.INT).window()[a_key("n")]
    change = decide_type_change(a_slot(1, "n", ColumnType.INT), window, RETAINED, FlatRules())
    assert change is not None
    assert (change.kind, change.type) == (ChangeKind.PROMOTE, ColumnType.STRING)


@pytest.mark.parametrize("seed", range(3))
def test_sixty_columns_keep_their_types_over_a_week_with_stray_values(seed: int) -> None:
    """10,000 to 60,000 values in each hour, one in 10,000 of them a stray; late hours of one to five rows
    hold nothing else."""
    random = Random(seed)  # noqa: S311 - a repeatable simulation
    kinds = [TEXT, FLOATS.join(TEXT), integers(1 << 63, 1 << 63)]
    slots = [
        a_slot(number, f"key_{number}", random.choice([*NUMBERS, ColumnType.BOOLEAN]))
        for number in range(1, 61)
    ]
    counts = HourCounts()
    for n in range(7 * 24):
        hour = T0 + n * HOUR_S
        late = T0 - random.randint(1, 200) * HOUR_S
        fresh = {a_key(f"key_{slot.index}"): an_hour(random, slot.type, kinds) for slot in slots}
        tiny = {a_key(f"key_{slot.index}"): strays(random.randint(1, 5)) for slot in random.sample(slots, 1)}
        counts = counts.with_batch(n, {hour: Observations(60_000, 0, fresh), late: Observations(5, 0, tiny)})
        counts = counts.merge_days_before(hour - 2 * DAY_S)
        window = counts.window()
        for slot in slots:
            assert slot.key is not None
            change = decide_type_change(slot, window[slot.key], RETAINED, FlatRules(booleans=True))
            assert change is None or change.kind is ChangeKind.WAIT, (n, slot, change)


def an_hour(random: Random, column_type: ColumnType, kinds: list[Evidence]) -> KeyCounts:
    values = random.randint(10_000, 60_000)
    expected = values / 10_000
    count = sum(random.random() < expected / 20 for _ in range(20))
    own = {
        ColumnType.TINYINT: integers(0, 100),
        ColumnType.SMALLINT: integers(0, 30_000),
        ColumnType.INT: integers(0, 1 << 30),
        ColumnType.BIGINT: integers(0, 1 << 60),
        ColumnType.DOUBLE: FLOATS,
        ColumnType.BOOLEAN: Evidence(has_booleans=True),
    }[column_type]
    evidence = own.join(TEXT) if count else own
    stray = MisfitCounts.of_value(random.choice(kinds), count)
    return KeyCounts(60_000, values - count, count, evidence, stray)


def strays(count: int) -> KeyCounts:
    return KeyCounts(5, 0, count, TEXT, MisfitCounts(others=count))


def test_hour_counts_of_older_versions_still_read_and_their_misfits_promote_nothing() -> None:
    hours = {str(T0): [1000, 0, [[0, 1000, 500, 500, 1, 9, 4]]]}
    old = json.dumps({"v": 1, "batch": 7, "keys": ["$.n"], "hours": hours})
    window = hour_counts_from_json(old).window()[a_key("n")]
    assert (window.total.misfits, window.misfit_hours) == (500, ())
    assert decide_type_change(a_slot(1, "n", ColumnType.INT), window, RETAINED, FlatRules()) is None


def test_older_versions_read_the_same_counts_as_before() -> None:
    form = json.loads(hour_counts_to_json(count({T0: [1, "x"]}, ColumnType.INT)))
    assert form.pop("misfit_kinds") == {str(T0): [[0, 0, 0, 0, 1]]}
    assert form == {"v": 1, "batch": -1, "keys": ["$.n"], "hours": {str(T0): [2, 0, [[0, 2, 1, 1, 1, 1, 4]]]}}


def test_rows_with_more_than_one_document_are_an_addition_to_the_form() -> None:
    counts = HourCounts({T0: Observations(5, trailing=2), T0 + HOUR_S: Observations(3)})
    form = json.loads(hour_counts_to_json(counts))
    assert hour_counts_from_json(json.dumps(form)) == counts
    assert form.pop("trailing") == {str(T0): 2}
    assert hour_counts_from_json(json.dumps(form)).hours[T0] == Observations(5)
    impossible: list[object] = [{str(T0): 6}, {str(T0): -1}, {"0": 1}, {str(T0): True}, []]
    for wrong in impossible:
        with pytest.raises(StateCorrupt):
            hour_counts_from_json(json.dumps(form | {"trailing": wrong}))


@pytest.mark.parametrize(
    "kinds",
    [
        {"0": [[0, 0, 0, 0, 1]]},
        {str(T0): [[1, 0, 0, 0, 1]]},
        {str(T0): [[0, 0, 0, 0, 2]]},
        {str(T0): [[0, 0, 0, -1, 1]]},
        {str(T0): [[0, 0, 0, 1]]},
        {str(T0): [[0, 0, 0, 0, True]]},
        {str(T0): [[0, 0, 0, 0, 1, 1]]},
        [],
        5,
    ],
)
def test_impossible_kinds_are_refused(kinds: object) -> None:
    form = json.loads(hour_counts_to_json(count({T0: [1, "x"]}, ColumnType.INT)))
    with pytest.raises(StateCorrupt):
        hour_counts_from_json(json.dumps(form | {"misfit_kinds": kinds}))
