"""The catalog projection against a source in memory: any history, with tables listed at any time, ends like a
rebuild."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.catalog.turns import Turns
from handlers.decoding.embedded_objects import PartitionOutline
from handlers.events import Embedded, PartitionsAdded, PartitionsAltered, Undecodable
from state.errors import GapDetected, MalformedEvent, MetastoreUnavailable, NotFound
from state.event_log.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore, MemoryTransaction
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import PRESENT, TIME_COLUMNS
from state.timelines.timeline import Timeline
from tests.builders.catalog.followed_catalog import Content, content, reload
from tests.builders.catalog.random_changes import DAYS, Change, Kind, changes, happen_meanwhile


RULES = Rules((Rule((f"{DB}.*",), columns=("dt",)),), lens=False)


class Followed:
    """A projection of a model source, in a store that outlives it."""

    def __init__(self, source: MemorySource, rules: Rules = RULES, store: MemoryStore | None = None) -> None:
        self.source = source
        self.store = store or MemoryStore()
        self.rules = rules
        self.reopen()

    def reopen(self) -> None:
        """Reopen everything, as after a restart."""
        self.follower = TimelineFollower(self.rules)
        source: Any = self.source
        self.projection = CatalogProjection(
            source_name="s", source=source, store=self.store, followers=[self.follower]
        )
        self.projection.open()

    def follow(self, upto: int | None = None) -> None:
        """Apply the next events and load everything."""
        events = self.source.events[self.projection.position.event_id : upto]
        if events:
            self.projection.apply(events)
        self.projection.load_all()
        self.follower.timelines.check(self.store)

    def content(self) -> Content:
        return content(self.follower.timelines)


def rebuilt(source: MemorySource, rules: Rules = RULES) -> Content:
    fresh = Followed(source, rules)
    fresh.follow()
    return fresh.content()


def expected(source: MemorySource) -> dict[str, set[str]]:
    """The naive answer: the days of each table, straight from the source's partitions."""
    days = {
        f"{DB}.{name}": {values[0] for values in held if values[0] != "latest"}
        for name, held in source.partitions.items()
    }
    return {name: found for name, found in days.items() if found}


def days_of(followed: Followed) -> dict[str, set[str]]:
    timelines = followed.follower.timelines
    found = {name: {str(p) for t in timelines.timelines(name) for p in t} for name in timelines.tables()}
    return {name: days for name, days in found.items() if days}


KINDS = (
    *(4 * [Kind.ADD]),
    *(2 * [Kind.DROP]),
    Kind.RENAME,
    Kind.RENAME_TABLE,
    Kind.DROP_TABLE,
    Kind.DROP_DATABASE,
)
CHANGES = changes(KINDS, [*DAYS, "latest"])


@given(
    before=st.lists(CHANGES, max_size=12),
    during=st.lists(CHANGES, max_size=6),
    after=st.lists(st.tuples(CHANGES, st.integers(0, 5)), max_size=25),
    whole=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_any_history_ends_like_a_rebuild(
    before: list[Change],
    during: list[Change],
    after: list[tuple[Change, int]],
    whole: bool,
) -> None:
    source = MemorySource()
    source.parameters = {TIME_COLUMNS: "dt"} if whole else {}  # partitions are listed whole, or by name
    for one in before:
        one.happen(source)
    happen_meanwhile(source, during)
    followed = Followed(source)
    for one, then in after:
        one.happen(source)
        if then == 1:
            followed.follow()
        elif then == 2:
            followed.reopen()
        elif then == 3 and source.tables:
            name = f"{DB}.{min(source.tables)}"
            reload(followed.projection, name)  # listed far ahead of the position
        elif then == 4:
            followed.projection.load_all()
    source.meanwhile = lambda: None
    followed.follow()
    followed.follow()
    assert days_of(followed) == expected(source)
    assert followed.content() == rebuilt(source)
    followed.projection.apply(source.events)
    assert followed.content() == rebuilt(source), "repeated events change nothing"
    followed.reopen()
    assert followed.content() == rebuilt(source), "the store contains what was in memory"


@pytest.fixture
def source() -> MemorySource:
    made = MemorySource()
    made.create("a")
    made.add("a", "2015-01-01", "x")
    return made


def test_a_value_in_a_listing_and_in_an_event_counts_once(source: MemorySource) -> None:
    followed = Followed(source)
    assert followed.projection.states.waiting() == {f"{DB}.a": "snapshot"}
    source.meanwhile = lambda: source.add("a", "2015-01-02", "x") if len(source.events) == 2 else None
    source.add("a", "2015-01-02", "y")
    followed.follow()
    source.drop("a", "2015-01-02", "y")
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.a": {"2015-01-01"}}


def test_whole_partitions_are_not_decoded_where_no_follower_stores_them(source: MemorySource) -> None:
    followed = Followed(source)
    followed.follow()

    def decode(_: str) -> Any:
        raise AssertionError("timelines need values and parameters only")

    outline = PartitionOutline(values=["2015-01-02", "x"])
    event = (Embedded("?", decode, lambda _: outline),)
    source.log(PartitionsAdded, "ADD_PARTITION", "a", owner=None, partitions=event)
    source.log(PartitionsAltered, "ALTER_PARTITIONS", "a", owner=None, after=event)
    followed.follow()
    assert days_of(followed) == {f"{DB}.a": {"2015-01-01", "2015-01-02"}}


def test_readers_give_way_to_the_transactions_of_a_load(
    source: MemorySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed, working, outside = Followed(source), list[None](), list[str]()
    work, put = Turns.work, MemoryTransaction.put

    @contextmanager
    def observed_work(self: Turns) -> Iterator[None]:
        with work(self):
            working.append(None)
            yield
            working.pop()

    def observed_put(self: MemoryTransaction, key: bytes, value: bytes) -> None:
        if key.startswith((b"tl/p/", b"tl/r/")) and not working:
            outside.append(key.hex())
        put(self, key, value)

    monkeypatch.setattr(Turns, "work", observed_work)
    monkeypatch.setattr(MemoryTransaction, "put", observed_put)
    followed.follow()
    assert days_of(followed) == {f"{DB}.a": {"2015-01-01"}}
    assert not outside


def test_a_malformed_event_quarantines_only_its_table_until_a_reload(source: MemorySource) -> None:
    source.create("b")
    followed = Followed(source)
    followed.follow()

    def broken(_: str) -> Any:
        raise MalformedEvent("no partition")

    source.log(PartitionsAdded, "ADD_PARTITION", "a", owner=None, partitions=(Embedded("?", broken),))
    source.add("a", "2015-01-02", "x")
    source.add("b", "2015-01-02", "x")
    followed.follow()
    assert followed.projection.quarantined() == (f"{DB}.a",)
    assert days_of(followed) == {f"{DB}.a": {"2015-01-01"}, f"{DB}.b": {"2015-01-02"}}
    followed.reopen()
    assert followed.projection.quarantined() == (f"{DB}.a",)
    reload(followed.projection, f"{DB}.a")
    assert followed.projection.quarantined() == ()
    assert days_of(followed) == expected(source)


def test_an_undecodable_event_quarantines_a_known_table_and_causes_a_load_of_an_unknown_one(
    source: MemorySource,
) -> None:
    followed = Followed(source)
    followed.follow()
    error = MalformedEvent("broken")
    source.log(Undecodable, "ADD_PARTITION", "a", error=error)
    source.create("b")
    source.events[-1] = Undecodable(
        event_id=len(source.events), time_s=0, kind="CREATE_TABLE", db=DB, table="b", error=error
    )
    followed.follow()
    assert followed.projection.quarantined() == (f"{DB}.a",)
    source.add("b", "2015-01-05", "x")
    followed.follow()
    assert days_of(followed)[f"{DB}.b"] == {"2015-01-05"}
    source.drop_table("a")
    source.create("a")
    followed.follow()
    assert followed.projection.quarantined() == (), "a table that is created again is a new table"


def test_an_unusable_event_that_the_listing_contains_does_not_quarantine_its_table(
    source: MemorySource,
) -> None:
    followed = Followed(source)
    followed.follow()
    source.log(Undecodable, "ADD_PARTITION", "a", error=MalformedEvent("broken"))
    reload(followed.projection, f"{DB}.a")
    followed.follow()
    assert followed.projection.quarantined() == ()


def test_a_renamed_table_is_no_longer_known_under_its_old_name(source: MemorySource) -> None:
    followed = Followed(source)
    followed.follow()
    source.rename("a", "b")
    followed.follow()
    assert followed.projection.states.list_followed() == [f"{DB}.b"]
    followed.reopen()
    assert followed.projection.states.list_followed() == [f"{DB}.b"]


def test_a_rename_during_a_listing_causes_a_load_under_the_new_name() -> None:
    source = MemorySource()
    source.parameters = {TIME_COLUMNS: "dt"}  # partitions are listed whole: a rename truncates the listing
    source.create("a")
    for day in DAYS:
        source.add("a", day, "x")
    followed = Followed(source)

    def rename_once() -> None:
        source.meanwhile = lambda: None
        source.rename("a", "b")

    source.meanwhile = rename_once
    followed.follow()
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.b": set(DAYS)}


def test_a_table_that_no_longer_exists_when_it_is_loaded_is_forgotten_by_its_followers(
    source: MemorySource,
) -> None:
    followed = Followed(source)
    followed.follow()
    source.drop_table("a")
    followed.projection.request_load(f"{DB}.a")
    followed.projection.load_all()
    assert days_of(followed) == {}, "its event is still to come and finds an unknown table"
    followed.follow()
    assert days_of(followed) == {}


def test_an_undecodable_event_without_a_database_is_a_gap_and_all_tables_are_loaded_again(
    source: MemorySource,
) -> None:
    followed = Followed(source)
    source.events.append(
        Undecodable(event_id=len(source.events) + 1, time_s=0, kind="?", error=MalformedEvent("broken"))
    )
    with pytest.raises(GapDetected, match="without a table name"):
        followed.follow()
    followed.reopen()
    assert followed.projection.position.event_id == len(source.events) - 1
    assert followed.projection.cross_gap()[1].event_id == len(source.events)
    followed.follow()
    assert days_of(followed) == expected(source)


def test_an_unavailable_source_loses_nothing(source: MemorySource) -> None:
    followed = Followed(source)
    source.broken = MetastoreUnavailable("away")
    followed.follow()
    assert days_of(followed) == {}
    assert followed.projection.states.waiting() == {f"{DB}.a": "snapshot"}
    source.broken = None
    followed.reopen()
    followed.follow()
    assert days_of(followed) == expected(source)


def test_a_table_that_is_not_followed_or_does_not_exist_cannot_be_reloaded(source: MemorySource) -> None:
    source.create("plain", ())
    followed = Followed(source)
    followed.follow()
    for name in ("plain", "none"):
        with pytest.raises(NotFound):
            reload(followed.projection, f"{DB}.{name}")
    assert followed.projection.states.waiting() == {}


def test_time_columns_are_detected_from_the_first_value_that_is_strictly_a_time() -> None:
    source = MemorySource()
    source.create("empty", ("when", "country"))
    source.create("words", ("when", "country"))
    source.add("words", "often", "de")
    followed = Followed(source, Rules((Rule((f"{DB}.*",)),), lens=False))
    followed.follow()
    assert followed.follower.timelines.tables() == []
    source.add("empty", "__HIVE_DEFAULT_PARTITION__", "de")
    source.add("words", "2015-01-01", "de")
    followed.follow()
    assert followed.follower.timelines.tables() == []
    source.add("empty", "2015-01-01", "de")
    followed.follow()
    followed.reopen()
    assert days_of(followed) == {f"{DB}.empty": {"2015-01-01"}}
    assert followed.follower.timelines.settings(f"{DB}.empty").time_columns == ("when",)
    listings = source.listings
    source.add("empty", "2015-01-02", "fr")
    source.add("words", "2015-01-02", "fr")
    followed.follow()
    assert source.listings == listings, "nothing is listed again"


def test_a_renamed_table_without_partitions_is_still_undecided_under_its_new_name_only() -> None:
    source = MemorySource()
    source.create("a", ("when", "country"))
    followed = Followed(source, Rules((Rule((f"{DB}.*",)),), lens=False))
    followed.follow()
    source.rename("a", "b")
    followed.follow()
    assert [key for key, _ in followed.store.scan(b"ct/u/", b"ct/u0")] == [f"ct/u/{DB}.b".encode()]
    source.add("b", "2015-01-01", "de")
    followed.follow()
    assert days_of(followed) == {f"{DB}.b": {"2015-01-01"}}


def test_lens_properties_are_trusted_while_they_are_consistent() -> None:
    source = MemorySource()
    lens = Timeline(UpdatePeriod.DAILY, "dt")
    lens.runs.add(UpdatePeriod.DAILY.parse("2015-01-01"))
    good = {**lens.to_properties(), PRESENT: "True", TIME_COLUMNS: "dt"}
    first = next(key for key in good if key.endswith(".first"))
    source.create("good", ("dt",), good)
    source.create("bad", ("dt",), {**good, first: "2016-01-01"})
    for name in ("good", "bad"):
        source.add(name, "2015-01-05")
    followed = Followed(source, Rules())
    followed.follow()
    assert days_of(followed) == {f"{DB}.good": {"2015-01-01"}, f"{DB}.bad": {"2015-01-05"}}
    assert source.listings == 1
    reload(followed.projection, f"{DB}.good")
    assert days_of(followed)[f"{DB}.good"] == {"2015-01-05"}, "a rebuild reads the partitions"


def test_time_columns_that_are_named_later_cause_a_load(source: MemorySource) -> None:
    followed = Followed(source, Rules())
    followed.follow()
    assert days_of(followed) == {}
    source.alter("a", "a", {TIME_COLUMNS: "dt"})
    followed.follow()
    assert days_of(followed) == expected(source)
    source.alter("a", "a", {})
    followed.follow()
    assert followed.follower.timelines.tables() == [], "and the table is forgotten when they are removed"


def test_changed_rules_cause_a_survey_of_all_tables(source: MemorySource) -> None:
    source.create("b")
    source.add("b", "2015-01-02", "x")
    followed = Followed(source)
    followed.follow()
    store = followed.store
    narrower = Followed(source, Rules((Rule((f"{DB}.b",), columns=("dt",)),), lens=False), store)
    narrower.follow()
    assert days_of(narrower) == {f"{DB}.b": {"2015-01-02"}}
    assert source.listings == 2, "a table with an unchanged rule is not listed again"
    wider = Followed(source, RULES, store)
    wider.follow()
    assert days_of(wider) == expected(source)


def test_after_lost_events_all_tables_are_loaded_again_from_their_partitions(source: MemorySource) -> None:
    source.create("b")
    source.add("b", "2015-01-02", "x")
    source.create("gone")
    source.add("gone", "2015-01-03", "x")
    followed = Followed(source)
    followed.follow()
    source.add("b", "2015-01-05", "x")
    source.drop_table("gone")
    source.create("new")
    source.add("new", "2015-01-06", "x")
    lost = source.current_event_id()
    before, after = followed.projection.cross_gap()
    assert (before.event_id < lost, after.event_id) == (True, lost)
    followed.projection.load_all()
    assert days_of(followed) == expected(source)
    source.add("b", "2015-01-07", "x")
    again = Followed(source, store=followed.store)
    again.follow()
    assert days_of(again) == expected(source)


def test_the_position_within_an_event_is_stored_exactly(source: MemorySource) -> None:
    followed = Followed(source)
    followed.follow()
    part = PartitionsAdded(
        event_id=len(source.events) + 1, part=0, parts=3, time_s=0, kind="WRITE", owner=None, partitions=()
    )
    followed.projection.apply([part])
    stored = followed.store.get(POSITION_KEY)
    assert stored is not None
    assert Position.from_bytes(stored) == Position(part.event_id, 0, 3)


def test_a_drop_that_lens_properties_cannot_decide_is_found_after_a_rename_in_the_same_batch() -> None:
    source = MemorySource()
    lens = Timeline(UpdatePeriod.DAILY, "dt")
    lens.runs.add(UpdatePeriod.DAILY.parse("2015-01-01"))
    lens.runs.add(UpdatePeriod.DAILY.parse("2015-01-02"))
    source.create("a", ("dt", "x"), {**lens.to_properties(), PRESENT: "true", TIME_COLUMNS: "dt"})
    for day in ("2015-01-01", "2015-01-02"):
        source.add("a", day, "x")
    followed = Followed(source, Rules())
    followed.follow()
    source.drop("a", "2015-01-01", "x")
    source.rename("a", "b")
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.b": {"2015-01-02"}}


def test_a_load_from_partitions_is_still_one_after_a_rename_in_a_later_batch() -> None:
    source = MemorySource()
    lens = Timeline(UpdatePeriod.DAILY, "dt")
    lens.runs.add(UpdatePeriod.DAILY.parse("2015-01-01"))
    source.create("a", ("dt", "x"), {**lens.to_properties(), PRESENT: "true", TIME_COLUMNS: "dt"})
    followed = Followed(source, Rules())
    followed.follow()
    followed.projection.request_load(f"{DB}.a")
    source.rename("a", "b")
    followed.follow()
    assert days_of(followed) == expected(source) == {}


def test_detected_columns_survive_a_swap_of_two_tables_in_one_batch() -> None:
    source = MemorySource()
    source.create("a", ("when", "country"))
    source.add("a", "2015-01-01", "de")
    followed = Followed(source, Rules((Rule((f"{DB}.*",)),), lens=False))
    followed.follow()
    source.create("b", ("when", "country"))
    source.add("b", "2015-01-02", "fr")
    source.rename("a", "c")
    source.rename("b", "a")
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.c": {"2015-01-01"}, f"{DB}.a": {"2015-01-02"}}


def test_settings_are_compared_with_those_of_the_same_batch() -> None:
    source = MemorySource()
    source.create("a", ("dt", "x"), {TIME_COLUMNS: "dt"})
    source.create("b", ("dt", "x"), {TIME_COLUMNS: "x"})
    for name in ("a", "b"):
        source.add(name, "2015-01-01", "2015-01-02")
    followed = Followed(source, Rules())
    followed.follow()
    source.rename("a", "c")
    source.rename("b", "a")
    source.alter("a", "a", {TIME_COLUMNS: "dt"})
    followed.follow()
    assert days_of(followed) == expected(source)


@pytest.mark.parametrize("table", [None, "a"])
def test_an_unusable_event_that_the_catalog_ignores_changes_nothing(
    source: MemorySource, table: str | None
) -> None:
    followed = Followed(source)
    followed.follow()
    source.log(Undecodable, "COMMIT_TXN", table, error=MalformedEvent("broken"))
    source.add("a", "2015-01-02", "x")
    followed.follow()
    assert followed.projection.quarantined() == ()
    assert days_of(followed) == expected(source)


def test_an_unusable_partition_event_without_a_table_causes_a_load_of_its_database(
    source: MemorySource,
) -> None:
    followed = Followed(source)
    followed.follow()
    source.add("a", "2015-01-02", "x")
    source.events.pop()
    source.log(Undecodable, "ADD_PARTITION", None, error=MalformedEvent("broken"))
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.a": {"2015-01-01", "2015-01-02"}}


def test_an_event_that_the_metastore_cannot_return_makes_its_table_load(source: MemorySource) -> None:
    followed = Followed(source)
    followed.follow()
    source.add("a", "2015-01-09", "x")
    source.events.pop()
    source.log(Undecodable, "UNREADABLE", "a", error=MalformedEvent("too large"))
    followed.follow()
    assert followed.projection.quarantined() == ()
    assert days_of(followed) == expected(source)


def test_an_unusable_table_event_without_a_table_is_a_gap(source: MemorySource) -> None:
    followed = Followed(source)
    source.log(Undecodable, "CREATE_TABLE", None, error=MalformedEvent("broken"))
    with pytest.raises(GapDetected):
        followed.follow()


@pytest.mark.parametrize("odd", ["9999-12-31", "1970-01-01", "latest"])
def test_detected_timelines_survive_a_reload_with_one_odd_value(odd: str) -> None:
    source = MemorySource()
    source.create("a", ("when", "country"))
    source.add("a", odd, "de")
    days = {f"2015-01-{day:02}" for day in range(1, 29)}
    for day in sorted(days):
        source.add("a", day, "de")
    followed = Followed(source, Rules((Rule((f"{DB}.*",)),), lens=False))
    followed.follow()
    assert days_of(followed) == {f"{DB}.a": days}, "also where the odd value came first"
    source.add("a", "other", "de")
    reload(followed.projection, f"{DB}.a")
    assert days_of(followed) == {f"{DB}.a": days}
