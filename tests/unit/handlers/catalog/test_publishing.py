"""Publishing, comparing and migrating against a source in memory: the paths that are rare on a real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from dev.fixtures.memory_source import DB, MemorySource, embedded
from handlers.catalog.following.background import CallsAtOnce
from handlers.catalog.following.ports import NullObserver
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.drift import TimelineComparison, compare_timelines
from handlers.catalog.timelines.property_writer import TimelineName, migrate, write_properties
from handlers.catalog.timelines.publisher import PAUSE_MIN_S, TimelinePublisher
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import TableAltered
from handlers.metastore.calls import V3_1, V4_0
from handlers.metastore.error_mapping import to_tideline_error
from handlers.structs.exceptions import InvalidOperationException, MetaException
from handlers.structs.objects import FieldSchema, Table
from state.errors import (
    AmbiguousCall,
    ConfigError,
    Conflict,
    InvalidRequest,
    MetastoreUnavailable,
    NotFound,
    Refused,
    ServerFault,
)
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import APPLIED_EVENT, PRESENT
from state.timelines.timeline import Timeline
from tests.builders.catalog.followed_catalog import reload
from tests.builders.catalog.late_calls import LateCalls
from tests.builders.catalog.steps import finish


NAME = f"{DB}.a"
DAILY = "cube.storagetable.partition.timeline.cache.DAILY.dt."
MODIFIED = "The table has been modified. The parameter value for key 'transient_lastDdlTime' is '7'"


class WritableSource(MemorySource):
    """A source in memory whose tables can be altered, or that refuses to."""

    def __init__(self) -> None:
        super().__init__()
        self.hive_version = V4_0
        self.refusals: list[Exception] = []
        self.calls: list[dict[str, Any]] = []

    def get_table(self, db: str, name: str) -> Table:
        return super().get_table(db, name).copy()

    def alter_table(self, db: str, name: str, table: Table, **options: Any) -> None:
        assert db == DB
        self.calls.append(options)
        if self.refusals:
            raise self.refusals.pop(0)
        before, after = self.tables[name], table.copy()
        self.tables[name] = after
        changed = {"before": embedded(Table, before), "after": embedded(Table, after)}
        self.log(TableAltered, "ALTER_TABLE", name, **changed)


class Outcomes(NullObserver):
    """Records the outcomes of publishing and the reasons for skipped events."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.skipped: list[str] = []

    def published(self, outcome: str) -> None:
        self.outcomes.append(outcome)

    def event_skipped(self, reason: str) -> None:
        self.skipped.append(reason)


class Published:
    """A catalog that publishes into its own source."""

    def __init__(self, source: WritableSource, delay_s: float = 0, form: str = "ends-and-holes") -> None:
        self.source = source
        self.form = form
        self.store = MemoryStore()
        self.observer = Outcomes()
        self.delay_s = delay_s
        self.now_s = 1e9
        self.reopen()

    def reopen(self) -> None:
        source: Any = self.source
        rules = Rules((Rule((f"{DB}.*",), columns=("dt",), form=self.form),), lens=False)
        self.follower = TimelineFollower(rules, self.observer, publishes=True)
        publisher = TimelinePublisher(
            calls=CallsAtOnce(source),
            follower=self.follower,
            delay_s=self.delay_s,
            observer=self.observer,
            clock=lambda: self.now_s if self.delay_s == 0 else 0.0,
        )
        self.projection = CatalogProjection(
            source_name="s",
            source=source,
            store=self.store,
            followers=[self.follower],
            observer=self.observer,
            publisher=publisher,
        )
        self.projection.open()

    def follow(self) -> None:
        self.projection.load_all()
        events = self.source.events[self.projection.position.event_id :]
        if events:
            self.projection.apply(events)
        self.projection.settle()

    def parameters(self) -> dict[str, str]:
        return dict(self.source.tables["a"].parameters or {})


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was changed within the second is not waited for."""
    unhurried = SimpleNamespace(time=time.time, sleep=lambda _: None)
    monkeypatch.setattr("handlers.catalog.timelines.property_writer.time", unhurried)


@pytest.fixture
def source() -> WritableSource:
    made = WritableSource()
    made.create("a", ("dt", "x"), {"transient_lastDdlTime": "100"})
    made.add("a", "2015-01-01", "x")
    return made


def test_a_write_compares_the_ddl_time_and_advances_it(source: WritableSource) -> None:
    catalog = Published(source)
    catalog.follow()
    (call,) = source.calls
    assert call == {
        "environment": {"DO_NOT_UPDATE_STATS": "true"},
        "expected": ("transient_lastDdlTime", "100"),
    }
    assert int(catalog.parameters()["transient_lastDdlTime"]) > 100
    assert (catalog.parameters()[PRESENT], catalog.parameters()[APPLIED_EVENT]) == ("true", "2")
    catalog.follow()
    assert catalog.observer.skipped == ["own"]
    assert len(source.calls) == 1


def test_a_ddl_time_ahead_of_the_clock_is_advanced_all_the_same(source: WritableSource) -> None:
    ahead_s = int(time.time()) + 1000
    source.tables["a"].parameters = {"transient_lastDdlTime": str(ahead_s)}
    catalog = Published(source)
    catalog.follow()
    assert catalog.parameters()["transient_lastDdlTime"] == str(ahead_s + 1)


def test_a_renamed_table_does_not_keep_the_event_id_of_a_write_under_its_old_name(
    source: WritableSource,
) -> None:
    catalog = Published(source)
    catalog.follow()
    catalog.delay_s = 3600
    catalog.reopen()
    source.rename("a", "b")
    catalog.follow()
    known = catalog.projection.states.get(f"{DB}.b")
    assert known is not None
    assert known.published is None


def test_an_older_metastore_receives_the_comparison_in_the_environment(source: WritableSource) -> None:
    source.hive_version = V3_1
    Published(source).follow()
    (call,) = source.calls
    assert call["environment"]["expected_parameter_key"] == "transient_lastDdlTime"
    assert call["expected"] is None


def test_a_table_without_a_ddl_time_is_compared_by_the_event_id(source: WritableSource) -> None:
    source.tables["a"].parameters = {}
    catalog = Published(source)
    catalog.follow()
    source.add("a", "2015-01-02", "x")
    catalog.follow()
    assert [call["expected"] for call in source.calls] == [None, (APPLIED_EVENT, "2")]


def test_a_refused_write_is_counted_and_a_conflict_is_tried_again(source: WritableSource) -> None:
    catalog = Published(source)
    source.refusals = [InvalidRequest(MODIFIED)] * 3
    catalog.follow()
    catalog.follow()
    assert catalog.observer.outcomes == ["conflict", "written"]
    source.add("a", "2015-01-02", "x")
    source.refusals = [Refused("no")]
    catalog.follow()
    assert catalog.observer.outcomes[-1] == "failed"
    assert catalog.follower.unpublished == {}, "it would be refused again"


def set_property(table: Table) -> None:
    table.parameters = {**(table.parameters or {}), "team": "lens"}


def set_timeline(table: Table) -> None:
    table.parameters = {**(table.parameters or {}), DAILY + "latest": "2015-06-01"}


def add_column(table: Table) -> None:
    table.sd.cols = [*(table.sd.cols or []), FieldSchema(name="added", type="int")]


def set_owner(table: Table) -> None:
    table.owner = "lens"


@pytest.mark.parametrize("change", [set_property, set_timeline, add_column, set_owner])
def test_a_change_that_keeps_the_ddl_time_is_found_before_it_is_overwritten(
    source: WritableSource, change: Callable[[Table], None]
) -> None:
    """As Lens and other Thrift clients make it: the whole table as it was read, with one change."""
    any_source: Any = source
    changed: list[Table] = []
    bases: list[dict[str, str]] = []

    def meddle() -> None:
        if not changed:
            table = source.tables["a"].copy()
            change(table)
            changed.append(table.copy())
            source.tables["a"] = table

    def compute(old: Mapping[str, str]) -> dict[str, str]:
        bases.append(dict(old))
        return {"ours": "1"}

    assert write_properties(any_source, NAME, compute, before_write=meddle)
    assert len(source.calls) == 1, "nothing was written on top of the table that had changed"
    assert bases[1] == changed[0].parameters
    written = source.tables["a"].copy()
    expected = changed[0].copy()
    expected.parameters = {**(expected.parameters or {}), "ours": "1"}
    written.parameters = {**(written.parameters or {}), "transient_lastDdlTime": "100"}
    assert written == expected


@pytest.mark.parametrize("change", [set_property, add_column, set_owner])
def test_a_change_that_is_overwritten_all_the_same_is_reported_by_the_event_of_the_write(
    source: WritableSource, change: Callable[[Table], None]
) -> None:
    """Another writer, who keeps the DDL time, comes between the last comparison and the write."""
    catalog = Published(source)
    alter = source.alter_table

    def alter_after_another(db: str, name: str, table: Table, **options: Any) -> None:
        changed = source.tables["a"].copy()
        change(changed)
        source.tables["a"] = changed
        alter(db, name, table, **options)

    source.alter_table = alter_after_another  # type: ignore[method-assign]
    catalog.follow()
    catalog.follow()
    assert catalog.observer.outcomes == ["written", "overwrote"]
    assert catalog.observer.skipped == [], "the catalog follows what the table is now"


def test_a_table_that_changes_before_every_write_is_a_conflict_and_is_never_overwritten(
    source: WritableSource,
) -> None:
    any_source: Any = source
    owners = iter("abcdef")

    def meddle() -> None:
        source.tables["a"] = source.tables["a"].copy()
        source.tables["a"].owner = next(owners)

    with pytest.raises(Conflict):
        write_properties(any_source, NAME, lambda _: {"ours": "1"}, before_write=meddle)
    assert source.calls == []


DENIED = [
    (
        MetaException(message="Permission denied: user [bob] does not have [ALTER] privilege on [db/a]"),
        "fault",
    ),
    (MetaException(message="java.security.AccessControlException: db.a cannot be modified by bob"), "fault"),
    (InvalidOperationException(message="table db.a cannot be modified by user bob"), "failed"),
]


@pytest.mark.parametrize(("error", "outcome"), DENIED)
def test_a_missing_permission_is_not_a_conflict_and_other_tables_are_published(
    source: WritableSource, error: Exception, outcome: str
) -> None:
    source.create("b", ("dt", "x"))
    source.add("b", "2015-01-01", "x")
    catalog = Published(source)
    source.refusals = [to_tideline_error(error, "alter_table", "thrift://here")]
    catalog.follow()
    assert catalog.observer.outcomes == [outcome, "written"]
    assert len(source.calls) == 2, "one try for each table"
    catalog.projection.settle()
    assert len(source.calls) == 2, "it is not tried again at once"


def test_a_table_with_the_last_day_of_the_calendar_in_ranges_harms_no_other(source: WritableSource) -> None:
    source.add("a", "9999-12-31", "x")
    source.add("a", "9999-12-30", "x")
    source.create("b", ("dt", "x"))
    source.add("b", "2015-01-01", "x")
    catalog = Published(source, form="ranges")
    catalog.follow()
    assert catalog.observer.outcomes == ["written", "written"]
    read = Timeline.from_properties(catalog.parameters(), UpdatePeriod.DAILY, "dt")
    (timeline,) = catalog.follower.timelines.timelines(NAME)
    assert read.runs == timeline.runs


def test_unpublished_tables_survive_a_restart_and_a_dropped_one_is_forgotten(
    source: WritableSource,
) -> None:
    catalog = Published(source, delay_s=3600)
    catalog.follow()
    assert list(catalog.follower.unpublished) == [NAME]
    catalog.delay_s = 0
    source.refusals = [MetastoreUnavailable("away")]
    catalog.reopen()
    catalog.projection.settle()
    catalog.projection.settle()
    assert catalog.observer.outcomes == ["fault"], "publishing pauses"
    catalog.reopen()
    catalog.projection.settle()
    assert catalog.observer.outcomes == ["fault", "written"]
    source.add("a", "2015-01-02", "x")
    source.drop_table("a")
    catalog.follow()
    assert catalog.follower.unpublished == {}


def test_a_table_that_cannot_be_published_is_tried_again_and_does_not_stop_the_others(
    source: WritableSource,
) -> None:
    source.create("b", ("dt", "x"))
    source.add("b", "2015-01-01", "x")
    catalog = Published(source)
    source.refusals = [ServerFault("internal error")]
    catalog.follow()
    assert catalog.observer.outcomes == ["fault", "written"]
    for outcomes in (
        ["fault", "written"],
        ["fault", "written", "fault"],
        ["fault", "written", "fault", "written"],
    ):
        catalog.projection.settle()
        assert catalog.observer.outcomes == outcomes
        source.refusals = [AmbiguousCall("no answer")] if len(outcomes) == 2 else []
        catalog.now_s += PAUSE_MIN_S * len(outcomes)
    assert catalog.follower.unpublished == {}


def test_a_comparison_lists_what_exists_on_one_side_only(source: WritableSource) -> None:
    catalog = Published(source)
    catalog.follow()
    catalog.follow()
    calls = LateCalls(source)

    def compare() -> TimelineComparison:
        steps = compare_timelines(
            calls, catalog.follower, NAME, lambda: catalog.projection.position.applied_event_id
        )
        next(steps)
        calls.make()
        calls.answer()
        with pytest.raises(StopIteration) as ended:
            next(steps)
        result: TimelineComparison = ended.value.value
        return result

    same = compare()
    assert (same.drift, same.moving) == ((), False)
    for day in ("03", "04", "06"):
        source.add("a", f"2015-01-{day}", "x")
    source.drop("a", "2015-01-01", "x")
    found = compare()
    (drift,) = found.drift
    assert found.moving
    assert drift.missing == ("[2015-01-03, 2015-01-05)", "[2015-01-06, 2015-01-07)")
    assert drift.surplus == ("[2015-01-01, 2015-01-02)",)


def test_a_failed_migration_changes_nothing(source: WritableSource) -> None:
    catalog = Published(source)
    catalog.follow()
    any_source: Any = source
    name = TimelineName(NAME, UpdatePeriod.DAILY, "dt")
    before = catalog.parameters()
    with pytest.raises(ConfigError):
        finish(migrate(catalog.store, catalog.follower, CallsAtOnce(any_source), NAME, name, "bitmap"))
    hourly = replace(name, period=UpdatePeriod.HOURLY)
    with pytest.raises(NotFound):
        finish(migrate(catalog.store, catalog.follower, CallsAtOnce(any_source), NAME, hourly, "ranges"))
    source.refusals = [InvalidRequest(MODIFIED)] * 3
    with pytest.raises(Conflict):
        finish(migrate(catalog.store, catalog.follower, CallsAtOnce(any_source), NAME, name, "ranges"))
    assert catalog.parameters() == before
    assert catalog.follower.timelines.timelines(NAME)[0].form.name == "ends-and-holes"
    finish(migrate(catalog.store, catalog.follower, CallsAtOnce(any_source), NAME, name, "ranges"))
    catalog.reopen()
    assert catalog.follower.timelines.timelines(NAME)[0].form.name == "ranges", "the form is stored"


@pytest.mark.parametrize(("form", "kept"), [("ends-and-holes", "ranges"), ("store-all", "store-all")])
def test_a_rule_that_gains_a_period_keeps_migrated_forms_unless_it_names_another_form(
    source: WritableSource, form: str, kept: str
) -> None:
    catalog = Published(source)
    catalog.follow()
    any_source: Any = source
    name = TimelineName(NAME, UpdatePeriod.DAILY, "dt")
    finish(migrate(catalog.store, catalog.follower, CallsAtOnce(any_source), NAME, name, "ranges"))
    before = catalog.follower.timelines.settings(NAME)
    after = replace(before, periods=(UpdatePeriod.HOURLY, UpdatePeriod.DAILY), form=form)
    with catalog.store.transaction() as txn:
        change = catalog.follower.timelines.change(txn)
        change.follow(NAME, after)
        change.load(NAME, [({"dt": "2015-01-01", "x": "x"}, None)])
    change.publish()
    catalog.follower.timelines.check(catalog.store)
    assert [timeline.form.name for timeline in catalog.follower.timelines.timelines(NAME)] == [kept]


def test_a_change_that_the_metastore_refuses_is_not_taken_for_a_conflict(source: WritableSource) -> None:
    catalog = Published(source)
    source.refusals = [InvalidRequest("the table failed strict managed table checks")]
    catalog.follow()
    assert catalog.observer.outcomes == ["failed"]
    assert len(source.calls) == 1


def test_a_timeline_that_lost_its_last_partition_is_published_as_empty_also_after_a_restart(
    source: WritableSource,
) -> None:
    catalog = Published(source)
    catalog.follow()
    assert catalog.parameters()[DAILY + "latest"] == "2015-01-01"
    catalog.delay_s = 3600
    catalog.reopen()
    source.drop("a", "2015-01-01", "x")
    source.add("a", "2015-02", "x")
    catalog.follow()
    catalog.delay_s = 0
    catalog.reopen()
    catalog.follow()
    parameters = catalog.parameters()
    assert [parameters[DAILY + key] for key in ("first", "latest", "holes.size")] == ["", "", "0"]
    assert parameters["cube.storagetable.partition.timeline.cache.MONTHLY.dt.latest"] == "2015-02"


@pytest.mark.parametrize("again", ["restart", "rebuild", "lost state"])
def test_a_table_that_lost_all_partitions_is_published_as_empty_whatever_happened_meanwhile(
    source: WritableSource, again: str
) -> None:
    catalog = Published(source)
    catalog.follow()
    source.drop("a", "2015-01-01", "x")
    if again == "lost state":
        catalog.store = MemoryStore()
    catalog.delay_s = 3600
    catalog.reopen()
    catalog.follow()
    catalog.delay_s = 0
    catalog.reopen()
    if again == "rebuild":
        reload(catalog.projection, NAME)
    catalog.follow()
    assert catalog.parameters()[DAILY + "latest"] == ""
    assert not Timeline.from_properties(catalog.parameters(), UpdatePeriod.DAILY, "dt").runs


def test_a_timeline_that_would_take_megabytes_of_properties_is_refused_before_they_are_built(
    source: WritableSource,
) -> None:
    source.add("a", "2015-01-01-00-00", "x")
    source.add("a", "2017-01-01-00-00", "x")
    source.create("b", ("dt", "x"))
    source.add("b", "2015-01-01", "x")
    catalog = Published(source)
    catalog.follow()
    assert catalog.observer.outcomes == ["too-long", "written"]
    assert PRESENT not in catalog.parameters()
    assert catalog.follower.unpublished == {}
