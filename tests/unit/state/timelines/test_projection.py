"""Timelines follow added and dropped partitions, per column and in any order, and equal the store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from state.errors import BadInput, ConfigError, NotFound, StateCorrupt, TimelineInconsistent
from state.store import Store
from state.store.memory import MemoryStore
from state.store.sqlite import SqliteStore
from state.timelines.ignored_values import IGNORED_MAX, IgnoredValues
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import RANGES, STORE_ALL
from state.timelines.table_properties import APPLIED_EVENT, PRESENT, STORAGE_CLASS, build_key_prefix
from state.timelines.tables import records
from state.timelines.tables.change import TimelineChange
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.tables.projection import Timelines, count_runs, iterate_timelines
from state.timelines.tables.settings import TableSettings, detect_time_columns, find_lens_columns
from state.timelines.tables.table_timelines import TableTimelines
from state.timelines.time_ranges import TimeRange
from state.timelines.timeline import build_form_properties, build_table_properties, choose_jump_max
from tests.builders.catalog.timelines import find_holes


P = UpdatePeriod
NOW = P.HOURLY.parse("2015-06-15-12")
THREE = TableSettings(("dt", "it", "et"), ("dt", "it", "et"), (P.HOURLY,))
SOLE = TableSettings(("dt",), ("dt",))
MIXED = TableSettings(("dt", "country"), ("dt",))


class Followed:
    """A store and its timelines, as a projection has them."""

    def __init__(self, store: Store | None = None, /, **tables: TableSettings) -> None:
        self.store: Store = MemoryStore() if store is None else store
        self.timelines = Timelines.open(self.store)
        with self.change() as change:
            for name, table in tables.items():
                change.follow(name, table)

    @contextmanager
    def change(self) -> Iterator[TimelineChange]:
        with self.store.transaction() as txn:
            change = self.timelines.change(txn)
            yield change
        change.publish()

    def add(self, table: str, period: UpdatePeriod | None = None, /, **spec: str) -> None:
        with self.change() as change:
            change.add(table, spec, period)

    def drop(self, table: str, **spec: str) -> None:
        with self.change() as change:
            change.drop(table, spec)

    def reopen(self) -> None:
        self.timelines = Timelines.open(self.store)

    def held(self, table: str, column: str = "dt") -> list[str]:
        self.check()
        return [
            str(part) for line in self.timelines.timelines(table) if line.column == column for part in line
        ]

    def check(self) -> None:
        self.timelines.check(self.store)


def hour(offset: int | str) -> str:
    return offset if isinstance(offset, str) else P.HOURLY.format(NOW + offset)


def pictured(followed: Followed, column: str) -> str:
    """``first..latest{holes}`` as offsets from now."""
    followed.check()
    timeline = followed.timelines.timeline("t", P.HOURLY, column)
    if timeline is None or timeline.runs.first is None or timeline.runs.last is None:
        return "empty"
    holes = ",".join(str(hole.ordinal - NOW) for hole in find_holes(timeline))
    return f"{timeline.runs.first - NOW}..{timeline.runs.last - NOW}" + (f"{{{holes}}}" if holes else "")


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_a_value_exists_as_long_as_any_partition_has_it(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "state", schema_version=1)
    followed = Followed(store, t=THREE)
    parts: dict[str, tuple[int | str, int | str, int | str]] = {
        "P1": (0, 0, 0),
        "P2": (0, "default", 1),
        "P3": (0, "default", 0),
        "P4": (0, 1, -1),
        "P5": (1, -1, -2),
        "P6": (-2, -1, -2),
        "P7": (-5, -5, -5),
    }
    steps = [
        ("+P1 +P2 +P3", "0..0", "0..0", "0..1"),
        ("+P4 +P5", "0..1", "-1..1", "-2..1"),
        ("+P6", "-2..1{-1}", "-1..1", "-2..1"),
        ("+P7", "-5..1{-4,-3,-1}", "-5..1{-4,-3,-2}", "-5..1{-4,-3}"),
        ("-P5", "-5..0{-4,-3,-1}", "-5..1{-4,-3,-2}", "-5..1{-4,-3}"),
        ("-P7", "-2..0{-1}", "-1..1", "-2..1"),
        ("-P2", "-2..0{-1}", "-1..1", "-2..0"),
        ("-P4", "-2..0{-1}", "-1..0", "-2..0{-1}"),
        ("-P3", "-2..0{-1}", "-1..0", "-2..0{-1}"),
        ("-P6", "0..0", "0..0", "0..0"),
        ("-P1", "empty", "empty", "empty"),
    ]
    for names, *expected in steps:
        for name in names.split():
            spec = dict(zip(("dt", "it", "et"), map(hour, parts[name[1:]]), strict=True))
            (followed.add if name[0] == "+" else followed.drop)("t", **spec)
        assert [pictured(followed, column) for column in ("dt", "it", "et")] == expected, names
        followed.reopen()
    with followed.store.transaction() as txn:
        left = (
            list(txn.scan(b"tl/r", b"tl/s"))
            + list(txn.scan(b"tl/p", b"tl/q"))
            + list(txn.scan(b"tl/c", b"tl/d"))
        )
    assert not left, "nothing is left of partitions that are gone"
    store.close()


def test_values_that_are_not_times_are_ignored_for_their_column_and_counted() -> None:
    followed = Followed(t=THREE)
    followed.add("t", dt=hour(0), it="__HIVE_DEFAULT_PARTITION__", et="latest")
    assert followed.held("t") == [hour(0)]
    assert followed.held("t", "it") == []
    assert followed.timelines.skipped == {"no-time": 2}
    followed.drop("t", dt=hour(0), it="__HIVE_DEFAULT_PARTITION__", et="latest")
    assert followed.held("t") == []


def test_a_stray_value_is_ignored_and_counted_and_its_drop_does_nothing() -> None:
    followed = Followed(t=MIXED)
    followed.add("t", dt="2015-01-01", country="de")
    followed.add("t", dt="9998-12-31", country="de")
    assert followed.held("t") == ["2015-01-01"]
    assert followed.timelines.skipped == {"stray": 1}
    followed.drop("t", dt="9998-12-31", country="de")
    assert followed.held("t") == ["2015-01-01"]


def test_ignored_values_are_kept_while_a_partition_has_them() -> None:
    followed = Followed(t=THREE)
    odd = {"dt": hour(0), "it": "__HIVE_DEFAULT_PARTITION__", "et": hour(0) + "_backup"}
    followed.add("t", None, **odd)
    followed.add("t", None, **odd | {"dt": hour(1), "it": hour(1)})
    with followed.change() as change:
        change.rename("t", "u")
    for _ in range(2):
        assert followed.timelines.ignored("u", "dt") == IgnoredValues()
        assert followed.timelines.ignored("u", "it") == IgnoredValues.of(["__HIVE_DEFAULT_PARTITION__"])
        assert followed.timelines.ignored("u", "et") == IgnoredValues.of([hour(0) + "_backup"])
        followed.reopen()
    followed.drop("u", **odd | {"it": ""})
    assert followed.timelines.ignored("u", "it") == IgnoredValues()
    assert followed.timelines.ignored("u", "et") == IgnoredValues.of([hour(0) + "_backup"])
    followed.drop("u", **odd | {"dt": hour(1), "it": hour(1)})
    assert followed.timelines.ignored("u", "et") == IgnoredValues()
    assert not list(followed.store.scan(b"tl/i", b"tl/j"))


def test_of_a_column_with_too_many_ignored_values_only_that_is_known() -> None:
    followed = Followed(t=SOLE)
    for text in map(str, range(10_000, 10_000 + IGNORED_MAX + 1)):
        assert followed.timelines.ignored("t", "dt") != IgnoredValues(is_complete=False)
        followed.add("t", None, dt=text)
    assert followed.timelines.ignored("t", "dt") == IgnoredValues(is_complete=False)
    followed.drop("t", dt="10000")
    assert followed.timelines.ignored("t", "dt") == IgnoredValues(is_complete=False)
    followed.reopen()
    ignored = followed.timelines.ignored("t", "dt")
    assert ignored is not None
    assert len(ignored.texts) == IGNORED_MAX


def test_ignored_values_of_an_older_file_are_not_known_until_the_table_is_loaded() -> None:
    followed = Followed(t=MIXED)
    with followed.store.transaction() as txn:
        _, record = next(records.read_tables(txn))
        del record["ignored"]
        records.put_table(txn, "t", record)
    followed.reopen()
    followed.add("t", dt="latest", country="de")
    assert followed.timelines.ignored("t", "dt") is None
    with followed.change() as change:
        change.load("t", [({"dt": "latest", "country": "de"}, None)])
    assert followed.timelines.ignored("t", "dt") == IgnoredValues.of(["latest"])


@pytest.mark.parametrize("table", [SOLE, MIXED])
def test_repeated_calls_change_nothing(table: TableSettings) -> None:
    followed = Followed(t=table)
    spec = dict.fromkeys(table.partition_columns, "2015-01-01")
    followed.add("t", None, **spec)
    followed.add("t", None, **spec)
    assert followed.held("t") == ["2015-01-01"]
    followed.drop("t", **spec)
    followed.drop("t", **spec)
    assert followed.held("t") == []


@pytest.mark.parametrize("table", [SOLE, MIXED])
def test_a_partition_whose_period_changes_moves(table: TableSettings) -> None:
    followed = Followed(t=table)
    spec = dict.fromkeys(table.partition_columns, "2015-01")
    followed.add("t", None, **spec)
    followed.add("t", P.QUARTERLY, **spec)
    assert followed.timelines.runs("t", P.MONTHLY, "dt") == Runs()
    assert len(followed.timelines.runs("t", P.QUARTERLY, "dt")) == 1
    followed.check()
    followed.drop("t", **spec)
    assert followed.held("t") == []


def test_the_period_comes_from_the_parameter_then_from_the_settings_then_from_the_value() -> None:
    quarters = TableSettings(("dt",), ("dt",), (P.QUARTERLY, P.DAILY))
    followed = Followed(a=SOLE, q=quarters, w=TableSettings(("dt",), ("dt",), iso_weeks=True))
    for text in (
        "2015",
        "2015-02",
        "2015-W05",
        "2015-02-03",
        "2015-02-03-04",
        "2015-02-03-04-05",
        "2015-02-03-04-05-06",
    ):
        followed.add("a", dt=text)
    periods = [timeline.period for timeline in followed.timelines.timelines("a")]
    assert periods == [P.YEARLY, P.MONTHLY, P.WEEKLY, P.DAILY, P.HOURLY, P.MINUTELY, P.SECONDLY]
    followed.add("a", P.CONTINUOUS, dt="2015-02-03-04-05-07")
    assert len(followed.timelines.runs("a", P.CONTINUOUS, "dt")) == 1
    followed.add("q", dt="2015-04")
    followed.add("q", dt="2015-02")
    followed.add("q", P.HOURLY, dt="2015-02-03-04")
    assert followed.held("q") == ["2015-04"]
    followed.add("w", P.WEEKLY, dt="2015-W53")
    assert followed.timelines.timelines("w")[0].period is P.WEEKLY_ISO


def test_a_failed_transaction_leaves_nothing_behind() -> None:
    followed = Followed(t=MIXED)
    followed.add("t", dt="2015-01-01", country="de")
    with suppress(NotFound), followed.change() as change:
        change.add("t", {"dt": "2015-01-02", "country": "de"})
        change.follow("other", SOLE)
        change.forget("t")
        change.add("t", {"dt": "2015-01-03", "country": "de"})
    assert followed.timelines.tables() == ["t"]
    assert followed.held("t") == ["2015-01-01"]


def test_readers_see_the_previous_state_until_the_change_is_published() -> None:
    followed = Followed(t=SOLE)
    followed.add("t", dt="2015-01-01")
    before = followed.timelines.runs("t", P.DAILY, "dt")
    with followed.change() as change:
        change.add("t", {"dt": "2015-01-02"})
        assert followed.timelines.runs("t", P.DAILY, "dt") is before
        assert before.count() == 1
    assert followed.timelines.runs("t", P.DAILY, "DT").count() == 2
    assert before.count() == 1, "what a reader holds never changes"


def test_a_renamed_table_keeps_its_timelines_and_a_forgotten_one_loses_them() -> None:
    followed = Followed(a=MIXED, b=SOLE)
    followed.add("a", dt="2015-01-01", country="de")
    followed.add("b", dt="2016-01-01")
    with followed.change() as change:
        change.rename("a", "b")
        change.rename("unknown", "c")
        change.forget("unknown")
        assert change.follows("b")
        assert not change.follows("a")
        change.add("b", {"dt": "2015-01-02", "country": "de"})
    assert followed.timelines.tables() == ["b"]
    assert followed.held("b") == ["2015-01-01", "2015-01-02"]
    followed.reopen()
    followed.drop("b", dt="2015-01-01", country="de")
    assert followed.held("b") == ["2015-01-02"]
    with followed.change() as change:
        change.forget("b")
    assert not followed.timelines.tables()
    steps = 0
    more = True
    while more:
        with followed.store.transaction() as txn:
            more = records.NUMBERS.sweep(txn, 1)
        steps += 1
    assert steps > 5, "one key at a time"
    assert len(list(followed.store.scan(b"tl/", None))) == 1, "the last table number stays"


def test_following_again_keeps_the_timelines_only_with_the_same_settings() -> None:
    followed = Followed(t=SOLE)
    followed.add("t", dt="2015-01-01")
    with followed.change() as change:
        change.follow("t", SOLE)
    assert followed.held("t") == ["2015-01-01"]
    assert followed.timelines.settings("t") == SOLE
    with followed.change() as change:
        change.follow("t", TableSettings(("dt",), ("dt",), (P.HOURLY,)))
    assert followed.held("t") == []


@pytest.mark.parametrize("table", [SOLE, MIXED])
def test_a_listing_replaces_the_timelines(table: TableSettings) -> None:
    followed = Followed(t=table)
    followed.add("t", None, **dict.fromkeys(table.partition_columns, "2014-01-01"))
    listed = [f"2015-01-{day:02d}" for day in range(1, 31)] + ["9998-12-31", "default"]
    with followed.change() as change:
        change.load("t", [({"dt": text, "country": "de"}, None) for text in listed])
        change.load(
            "t", [({"dt": text, "country": country}, None) for text in listed for country in ("de", "fr")]
        )
        change.add("t", {"dt": "2015-01-31", "country": "de"})
    assert followed.held("t") == [*listed[:30], "2015-01-31"]
    assert followed.timelines.skipped["stray"] >= 2
    followed.drop("t", dt="2015-01-01", country="de")
    assert followed.held("t")[0] == ("2015-01-02" if table is SOLE else "2015-01-01")
    followed.reopen()
    followed.drop("t", dt="2015-01-01", country="fr")
    assert followed.held("t")[0] == "2015-01-02"
    followed.check()


class TestFromProperties:
    """Loading from a table's own properties instead of from all of its partitions."""

    def properties(self, column: str = "dt") -> dict[str, str]:
        source = Followed(s=TableSettings((column,), (column,), form=RANGES.name))
        for text in ("2015-01-01", "2015-01-02", "2015-03"):
            source.add("s", None, **{column: text})
        return build_table_properties(source.timelines.timelines("s"), {}, 42)

    def test_all_timelines_of_a_table_are_published_and_read_back(self) -> None:
        properties = self.properties()
        assert properties[PRESENT] == "true"
        assert properties[APPLIED_EVENT] == "42"
        assert list(properties)[-1] == PRESENT
        followed = Followed(t=SOLE)
        with followed.change() as change:
            change.load_properties("t", properties)
        assert followed.held("t") == ["2015-03", "2015-01-01", "2015-01-02"]
        followed.reopen()
        assert {timeline.form for timeline in followed.timelines.timelines("t")} == {RANGES}
        followed.drop("t", dt="2015-03")
        assert followed.held("t") == ["2015-01-01", "2015-01-02"]
        with followed.change() as change:
            change.follow("t", SOLE)
        assert followed.held("t"), "forms found in properties are no other settings"

    def test_a_table_with_other_columns_cannot_decide_a_drop_and_becomes_stale(self) -> None:
        followed = Followed(t=MIXED)

        def is_stale() -> bool:
            return followed.timelines._tables["t"].stale

        with followed.change() as change:
            change.load_properties("t", self.properties())
            change.add("t", {"dt": "2015-01-03", "country": "de"})
        assert not is_stale()
        assert followed.timelines.ignored("t", "dt") is None, "properties do not contain them"
        assert followed.held("t") == ["2015-03", "2015-01-01", "2015-01-02", "2015-01-03"]
        followed.drop("t", dt="2015-01-01", country="de")
        followed.drop("t", dt="2015-01-01", country="fr")
        assert is_stale()
        followed.reopen()
        assert is_stale()
        with followed.change() as change:
            change.load("t", [({"dt": "2015-01-02", "country": "de"}, None)])
        assert not is_stale()
        assert followed.held("t") == ["2015-01-02"]

    def test_contradictions_change_nothing(self) -> None:
        followed = Followed(t=SOLE)
        followed.add("t", dt="2015-01-01")
        key = build_key_prefix(P.DAILY, "dt") + "ranges0"
        for properties in ({}, self.properties() | {key: "[2015-01-05, 2015-01-01)"}):
            with pytest.raises(TimelineInconsistent), followed.change() as change:
                change.load_properties("t", properties)
        assert followed.held("t") == ["2015-01-01"]

    def test_a_period_added_after_the_flag_was_set_is_detected(self) -> None:
        followed = Followed(t=TableSettings(("dt",), ("dt",), (P.DAILY, P.MONTHLY, P.HOURLY)))
        with pytest.raises(TimelineInconsistent, match="HOURLY"), followed.change() as change:
            change.load_properties("t", self.properties())

    def test_an_unknown_form_is_refused(self) -> None:
        followed = Followed(t=SOLE)
        with pytest.raises(ConfigError), followed.change() as change:
            change.load_properties(
                "t", self.properties() | {build_key_prefix(P.DAILY, "dt") + STORAGE_CLASS: "x"}
            )

    def test_a_column_in_capitals_is_found_and_keeps_its_spelling(self) -> None:
        followed = Followed(t=TableSettings(("dt",), ("Dt",)))
        with followed.change() as change:
            change.load_properties("t", self.properties())
        followed.add("t", dt="2015-01-03")
        assert followed.held("t", "Dt")[-1] == "2015-01-03"
        assert build_key_prefix(P.DAILY, "Dt") + STORAGE_CLASS in build_table_properties(
            followed.timelines.timelines("t"), {}, 1
        )


def test_one_timeline_is_migrated_and_stays_so() -> None:
    followed = Followed(t=SOLE)
    followed.add("t", dt="2015-01-01")
    followed.add("t", dt="2015-01")
    properties = build_table_properties(followed.timelines.timelines("t"), {}, 1)
    timeline = followed.timelines.timeline("t", P.DAILY, "dt")
    assert timeline is not None
    changes = build_form_properties(timeline, STORE_ALL, properties)
    with followed.change() as change:
        change.set_form("t", P.DAILY, "dt", STORE_ALL.class_name)
        change.add("t", {"dt": "2015-01-02"})
    followed.reopen()
    assert [line.form.name for line in followed.timelines.timelines("t")] == ["ends-and-holes", "store-all"]
    with followed.change() as change:
        change.set_form("t", P.HOURLY, "dt", STORE_ALL.class_name)
    assert followed.timelines.timeline("t", P.HOURLY, "dt") is None
    with followed.change() as change:
        change.add("t", {"dt": "2015-01-01-05"})
    hourly = followed.timelines.timeline("t", P.HOURLY, "dt")
    assert hourly is not None
    assert hourly.form.name == "store-all"
    with followed.change() as change:
        change.load_properties("t", properties | changes)
    assert followed.held("t") == ["2015-01", "2015-01-01"]
    with pytest.raises(ConfigError), followed.change() as change:
        change.set_form("t", P.DAILY, "dt", "unknown")


def test_a_fact_is_covered_from_its_tables_within_their_windows() -> None:
    followed = Followed(hot=SOLE, cold=MIXED)
    with followed.change() as change:
        change.load("hot", [({"dt": f"2015-01-{day:02d}"}, None) for day in range(10, 21)])
        change.load("cold", [({"dt": f"2015-01-{day:02d}", "country": "de"}, None) for day in range(1, 15)])
    window = TimeRange.parse("2015-01-01", "2015-01-12")
    fact = Fact(
        "sales",
        (StorageTable("cold", window.start_s, window.end_s), StorageTable("hot"), StorageTable("new")),
    )
    answer = fact.cover(followed.timelines, "dt", TimeRange.parse("2015-01-05", "2015-01-21"), strict=True)
    assert [str(run) for run in answer.runs()] == [
        "cold DAILY [2015-01-05, 2015-01-12)",
        "hot DAILY [2015-01-12, 2015-01-21)",
    ]
    assert str(fact.latest(followed.timelines, "dt")) == "2015-01-20"
    assert str(Fact.of_table("cold").latest(followed.timelines, "dt")) == "2015-01-14"
    assert count_runs(followed.timelines) == len(list(iterate_timelines(followed.timelines))) == 2
    with pytest.raises(NotFound):
        Fact.of_table("new").latest(followed.timelines, "dt")
    with pytest.raises(NotFound):
        fact.latest(followed.timelines, "country")


def test_a_table_that_is_not_followed_is_not_found() -> None:
    followed = Followed()
    with pytest.raises(NotFound):
        followed.add("t", dt="2015-01-01")
    with pytest.raises(NotFound):
        followed.timelines.runs("t", P.DAILY, "dt")


def test_time_columns_must_be_partition_columns() -> None:
    with pytest.raises(BadInput):
        TableSettings(("dt",), ("it",))
    with pytest.raises(BadInput):
        TableSettings(("dt",), ())
    assert find_lens_columns({"cube.storagetable.time.partcols": "Dt,gone"}, ["dt", "country"]) == ("Dt",)


def test_time_columns_are_those_whose_every_value_is_a_time() -> None:
    specs = [
        {"dt": "2015-01-01", "hr": "05", "year": "2015", "m": "2015-01"},
        {"dt": "__HIVE_DEFAULT_PARTITION__", "hr": "06", "year": "2016", "m": "main"},
    ]
    assert detect_time_columns(["dt", "hr", "year", "m"], specs, ["__HIVE_DEFAULT_PARTITION__"]) == ["dt"]
    assert detect_time_columns(["dt"], [], []) == []


def test_a_few_odd_values_do_not_hide_a_time_column_and_none_hides_a_known_one() -> None:
    days = [{"dt": f"2015-{month:02}-{day:02}"} for month in range(1, 11) for day in range(1, 21)]
    assert detect_time_columns(["dt"], [*days, {"dt": "odd"}, {"dt": "bad"}], []) == ["dt"]
    assert detect_time_columns(["dt"], [*days[:10], {"dt": "odd"}], []) == []
    assert detect_time_columns(["dt"], [*days[:10], {"dt": "odd"}], [], ["Dt"]) == ["dt"]
    assert detect_time_columns(["dt"], [{"dt": "odd"}], [], ["dt"]) == []


@pytest.mark.parametrize("order", [1, -1])
def test_sentinels_are_never_neighbours_of_real_values(order: int) -> None:
    values = ["9999-12-31", "1970-01-01", "9999-12-31-23", *(f"2015-01-{day:02}" for day in range(1, 29))]
    followed = Followed(a=MIXED)
    for value in values[::order]:
        followed.add("a", dt=value, country="de")
    assert followed.held("a") == [f"2015-01-{day:02}" for day in range(1, 29)]


def test_a_partition_that_was_listed_by_its_name_is_dropped_by_its_empty_value() -> None:
    followed = Followed(a=MIXED)
    followed.add("a", dt="2015-01-01", country="__HIVE_DEFAULT_PARTITION__")
    followed.add("a", dt="2015-01-01", country="")
    followed.drop("a", dt="2015-01-01", country="")
    assert followed.held("a") == []


def test_a_stray_distance_of_twenty_years_is_twenty_years() -> None:
    distances = {period.name: choose_jump_max(period) for period in UpdatePeriod}
    assert (distances["DAILY"], distances["WEEKLY"], distances["MONTHLY"]) == (7_305, 1_043, 240)
    assert (distances["HOURLY"], distances["QUARTERLY"], distances["YEARLY"]) == (24 * 7_305, 80, 20)


def test_a_store_changed_from_outside_is_refused() -> None:
    followed = Followed(t=SOLE)
    followed.add("t", dt="2015-01-05")
    (key, _) = next(followed.store.scan(b"tl/r", b"tl/s"))
    with followed.store.transaction() as txn:
        txn.put(key, bytes(8))
    with pytest.raises(StateCorrupt):
        followed.reopen()
    with followed.store.transaction() as txn:
        txn.put(b"tl/t/t", b"{")
    with pytest.raises(StateCorrupt):
        followed.reopen()
    with pytest.raises(StateCorrupt):
        TableSettings.from_json({"periods": ["X"]})


def test_dropping_a_partition_whose_value_is_lost_reports_corrupt_state() -> None:
    followed = Followed(t=MIXED)
    followed.add("t", dt="2015-01-01", country="de")
    with followed.store.transaction() as txn:
        txn.delete_range(b"tl/r", b"tl/s")
    followed.reopen()
    with pytest.raises(StateCorrupt):
        followed.drop("t", dt="2015-01-01", country="de")


def test_check_detects_that_memory_differs_from_the_store() -> None:
    followed = Followed(t=SOLE)
    followed.timelines._tables["t"].timelines[P.DAILY, 0] = TableTimelines(1, SOLE).new_timeline(
        (P.DAILY, 0), Runs((1, 2))
    )
    with pytest.raises(AssertionError):
        followed.check()


class ProjectionMachine(RuleBasedStateMachine):
    """Adds, drops, alters, renames, listings, reopenings and failed transactions against plain
    dictionaries."""

    names = st.sampled_from(["a", "b"])
    texts = st.sampled_from(
        [*(f"2015-01-{day:02d}" for day in range(1, 9)), "2015-01", "2015-04", "default", "9999-12-31", "de"]
    )
    periods = st.sampled_from([None, P.DAILY, P.MONTHLY, P.QUARTERLY])

    @initialize(columns=st.sampled_from([("dt",), ("dt", "country"), ("it", "dt", "country")]))
    def start(self, columns: tuple[str, ...]) -> None:
        times = tuple(name for name in columns if name != "country")
        self.settings = TableSettings(columns, times, jump_max=20_000)
        self.followed = Followed(a=self.settings)
        self.model: dict[str, dict[tuple[str, ...], UpdatePeriod | None]] = {"a": {}}
        with self.followed.change() as change:
            # Two permanent values, so that the order of the others does not decide which value is a stray.
            for values in self.anchors():
                change.add("a", self.spec(values))
                self.model["a"][values] = None

    def anchors(self) -> list[tuple[str, ...]]:
        return [(text,) * len(self.settings.partition_columns) for text in ("2015-01-30", "2015-01-31")]

    def spec(self, values: tuple[str, ...]) -> Mapping[str, str]:
        return dict(zip(self.settings.partition_columns, values, strict=True))

    def values(self, data: st.DataObject) -> tuple[str, ...]:
        return tuple(
            data.draw(st.sampled_from(["de", "fr"]) if name == "country" else self.texts)
            for name in self.settings.partition_columns
        )

    @rule(data=st.data(), name=names, period=periods, fails=st.booleans())
    def add(self, data: st.DataObject, name: str, period: UpdatePeriod | None, fails: bool) -> None:
        values = self.values(data)
        if name not in self.model:
            return
        with suppress(ZeroDivisionError), self.followed.change() as change:
            change.add(name, self.spec(values), period)
            assert fails < 1 / (not fails), (
                "divides by zero, and so fails the transaction, where it is to fail"
            )
            self.model[name][values] = period

    @rule(data=st.data(), name=names, guess=st.integers(0, 3))
    def drop(self, data: st.DataObject, name: str, guess: int) -> None:
        known = sorted(self.model.get(name, {}))
        values = data.draw(st.sampled_from(known)) if known and guess < 3 else self.values(data)
        if name in self.model and values not in self.anchors():
            self.followed.drop(name, **self.spec(values))
            self.model[name].pop(values, None)

    @rule(old=names, new=names)
    def rename(self, old: str, new: str) -> None:
        with self.followed.change() as change:
            change.rename(old, new)
        if old in self.model:
            self.model[new] = self.model.pop(old)

    @rule(name=names)
    def reload(self, name: str) -> None:
        if name in self.model:
            with self.followed.change() as change:
                change.load(
                    name, [(self.spec(values), period) for values, period in self.model[name].items()]
                )

    @rule()
    def reopen(self) -> None:
        self.followed.reopen()

    @invariant()
    def is_what_a_rebuild_gives(self) -> None:
        if not hasattr(self, "followed"):
            return
        self.followed.check()
        assert self.followed.timelines.tables() == sorted(self.model)
        for name, partitions in self.model.items():
            expected: dict[tuple[str, UpdatePeriod], set[str]] = {}
            ignored: dict[str, set[str]] = {column: set() for column in self.settings.time_columns}
            for values, period in partitions.items():
                for column in self.settings.time_columns:
                    text = self.spec(values)[column]
                    read = self.settings.read(text, period)
                    if read is not None and text != "9999-12-31":
                        expected.setdefault((column, read[0]), set()).add(text)
                    else:
                        ignored[column].add(text)
            told = {
                (line.column, line.period): {str(part) for part in line}
                for line in self.followed.timelines.timelines(name)
                if line.runs
            }
            assert told == expected
            for column, texts in ignored.items():
                assert self.followed.timelines.ignored(name, column) == IgnoredValues(frozenset(texts))


ProjectionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=30)
TestProjectionMachine = ProjectionMachine.TestCase
