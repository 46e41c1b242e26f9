"""Short constructors and strategies for keys, requests, observations and layouts of flat tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from hypothesis import strategies as st

from state.columns.counts.observations import HourCounts, KeyCounts, KeyWindow, Observations
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey
from state.columns.slots import HOUR_S, RESCUED, Layout, Slot, SlotState
from state.columns.types import NOTHING, ColumnType, Evidence, integers


T0 = 500_000 * HOUR_S
"""The hour at which examples begin."""
FLOATS = Evidence(has_floats=True)
BOOLEANS = Evidence(has_booleans=True)
TEXT = Evidence(has_text=True)


def a_key(dotted: str) -> KeyPath:
    return KeyPath(tuple(dotted.split(".")))


def spark_json_path(key: KeyPath) -> str | None:
    """The path as Spark 4's ``get_json_object`` reads it; None if it cannot be written (Spark skips blanks
    before names)."""

    def is_plain(name: str) -> bool:
        return "." not in name and "[" not in name and not name.startswith("*")

    quoted = [name for name in key.members if not is_plain(name)]
    if "*" in key.members or any("'" in name for name in quoted):
        return None
    if any(name[0] in " \t\n\v\f\r" for name in key.members):
        return None
    return "$" + "".join(f".{name}" if is_plain(name) else f"['{name}']" for name in key.members)


def requested_by(
    dotted: str, users: Collection[str] = ("ann",), days: int = 1, count: int = 1
) -> RequestedKey:
    return RequestedKey(a_key(dotted), frozenset(users), days, count, first_s=T0, last_s=T0 + count)


def a_window(
    evidence: Evidence, values: int = 5_000, first_hour: int = T0, last_hour: int = T0, misfits: int = 0
) -> KeyWindow:
    kinds = MisfitCounts.of_value(evidence, misfits)
    seen = KeyCounts(2 * values, values - misfits, misfits, evidence, kinds)
    hours = ((last_hour, seen.kinds),) if misfits else ()
    return KeyWindow(seen, first_hour, last_hour, hours)


def a_slot(
    index: int,
    dotted: str,
    column_type: ColumnType = ColumnType.STRING,
    *,
    state: SlotState = SlotState.LIVE,
    hours: tuple[int, int] | None = (T0, T0),
    name: str | None = None,
) -> Slot:
    first, last = hours or (None, None)
    return Slot(
        index, name or dotted.replace(".", "/").lower(), a_key(dotted), column_type, first, last, state
    )


def a_layout(*slots: Slot, version: int = 1) -> Layout:
    reserved = Slot(0, RESCUED, None, ColumnType.STRING, state=SlotState.RESERVED)
    layout = Layout(version, (reserved, *slots))
    layout.check()
    return layout


def fill_rates(counts: HourCounts) -> dict[KeyPath, float]:
    """Return the share of rows that contain each key, as ``compute_demand`` takes it."""
    return {key: window.total.fill_rate for key, window in counts.window().items()}


def some_hour_counts(
    hours: Iterable[int], dotted: str, evidence: Evidence = TEXT, values: int = 10
) -> HourCounts:
    seen = Observations(values, 0, {a_key(dotted): KeyCounts(values, values, 0, evidence)})
    return HourCounts(dict.fromkeys(hours, seen))


def evidences() -> st.SearchStrategy[Evidence]:
    """Any evidence, most of its bounds near where types change."""
    edges = [
        0,
        *(
            sign * (1 << bits) + near
            for bits in (7, 15, 31, 53, 63, 64)
            for sign in (1, -1)
            for near in (-1, 0, 1)
        ),
    ]
    ints = st.one_of(st.sampled_from(edges), st.integers(-(10**25), 10**25))
    ranges = st.one_of(st.just(NOTHING), st.tuples(ints, ints).map(lambda two: integers(min(two), max(two))))
    flags = st.builds(
        Evidence,
        has_floats=st.booleans(),
        has_booleans=st.booleans(),
        has_text=st.booleans(),
    )
    return st.builds(Evidence.join, ranges, st.one_of(st.just(NOTHING), flags))


def members() -> st.SearchStrategy[str]:
    """Names of members: common ones, those that break something somewhere, and any text."""
    odd = [
        "a",
        "A",
        "b",
        "a.b",
        "a/b",
        "/",
        "a:b",
        "a,b",
        "`",
        "\\",
        "'",
        '"',
        "%2e",
        "%",
        "~1",
        "a~1",
        "\u0130",
        "\u017f",
        "s",
        "\u0131",
        "I",
    ]
    more = [
        "*",
        "*a",
        "[0]",
        "a[0]",
        "\u03c2",
        "\u03c3",
        "\u03a3",
        " ",
        " a",
        "a ",
        "\t",
        "\n",
        "\x00",
        "\ud800",
        "\U0001f600",
        "\u0435",
        "\u212a",
        "\u00e9",
        "e\u0301",
    ]
    return st.one_of(st.sampled_from(odd + more), st.text(min_size=1, max_size=12))


def keys() -> st.SearchStrategy[KeyPath]:
    return st.lists(members(), min_size=1, max_size=4).map(lambda names: KeyPath(tuple(names)))


def key_counts() -> st.SearchStrategy[KeyCounts]:
    def built(rows: int, nonnull: int, unknown: int, kinds: MisfitCounts, evidence: Evidence) -> KeyCounts:
        misfits = unknown + kinds.total
        return KeyCounts(rows + nonnull + misfits, nonnull, misfits, evidence, kinds)

    counts = st.integers(0, 10**6)
    return st.builds(built, counts, counts, counts, misfit_counts(), evidences())


def misfit_counts() -> st.SearchStrategy[MisfitCounts]:
    few = st.sampled_from([0, 0, 1, 7, 10**6])
    return st.builds(MisfitCounts, few, few, few, few)


def observations() -> st.SearchStrategy[Observations]:
    def built(rows: int, malformed: int, seen: dict[KeyPath, KeyCounts]) -> Observations:
        return Observations(rows + malformed, malformed, seen)

    by_key = st.dictionaries(keys(), key_counts(), max_size=4)
    return st.builds(built, st.integers(0, 10**6), st.integers(0, 10**6), by_key)


def hour_counts() -> st.SearchStrategy[HourCounts]:
    hours = st.integers(0, 50).map(lambda hour: T0 + hour * HOUR_S)
    return st.builds(HourCounts, st.dictionaries(hours, observations(), max_size=4), st.integers(-1, 9))
