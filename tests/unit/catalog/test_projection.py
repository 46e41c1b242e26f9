"""The catalog projection against a source in memory: any history, with tables listed at any time, ends as a rebuild does."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.projection import CatalogProjection
from handlers.catalog.timelines.rules import Rule, Rules
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.events import Embedded, PartitionsAdded, Undecodable
from state.errors import MalformedEvent, MetastoreUnavailable, NotFound
from state.positions import POSITION_KEY, Position
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.table_properties import PRESENT, TIME_COLUMNS
from state.timelines.timeline import Timeline
from tests.builders.catalog.followed_catalog import Content, content
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
        """As after a restart."""
        self.follower = TimelineFollower(self.rules)
        source: Any = self.source
        self.projection = CatalogProjection(
            source_name="s", source=source, store=self.store, followers=[self.follower]
        )
        self.projection.open()

    def follow(self, upto: int | None = None) -> None:
        """Apply what comes next."""
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
def test_any_history_ends_as_a_rebuild_does(
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
            followed.projection.reload(name)  # listed far ahead of the position
        elif then == 4:
            followed.projection.load_all()
    source.meanwhile = lambda: None
    followed.follow()
    followed.follow()
    assert days_of(followed) == expected(source)
    assert followed.content() == rebuilt(source)
    followed.projection.apply(source.events)
    assert followed.content() == rebuilt(source), "events that come again change nothing"
    followed.reopen()
    assert followed.content() == rebuilt(source), "what is in the store is what was in memory"


@pytest.fixture
def source() -> MemorySource:
    made = MemorySource()
    made.create("a")
    made.add("a", "2015-01-01", "x")
    return made


def test_a_listing_is_overlapped_by_events_and_a_value_counts_once(source: MemorySource) -> None:
    followed = Followed(source)
    assert followed.projection.states.waiting() == {f"{DB}.a": "snapshot"}
    source.meanwhile = lambda: source.add("a", "2015-01-02", "x") if len(source.events) == 2 else None
    source.add("a", "2015-01-02", "y")
    followed.follow()
    source.drop("a", "2015-01-02", "y")
    followed.follow()
    assert days_of(followed) == expected(source) == {f"{DB}.a": {"2015-01-01"}}


def test_a_malformed_event_quarantines_its_table_alone_until_it_is_loaded_again(source: MemorySource) -> None:
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
    followed.projection.reload(f"{DB}.a")
    assert followed.projection.quarantined() == ()
    assert days_of(followed) == expected(source)


def test_an_undecodable_event_confines_a_known_table_and_has_an_unknown_one_looked_at(
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
    assert followed.projection.quarantined() == (), "a table that is made again is another one"


def test_an_undecodable_event_that_may_concern_anything_stops_the_projection(source: MemorySource) -> None:
    followed = Followed(source)
    source.events.append(
        Undecodable(event_id=len(source.events) + 1, time_s=0, kind="?", error=MalformedEvent("broken"))
    )
    with pytest.raises(MalformedEvent):
        followed.follow()
    followed.reopen()
    assert followed.projection.position.event_id == len(source.events) - 1


def test_a_source_that_is_away_loses_nothing(source: MemorySource) -> None:
    followed = Followed(source)
    source.broken = MetastoreUnavailable("away")
    with pytest.raises(MetastoreUnavailable):
        followed.follow()
    source.broken = None
    followed.reopen()
    followed.follow()
    assert days_of(followed) == expected(source)


def test_a_table_that_is_not_wanted_or_not_there_cannot_be_reloaded(source: MemorySource) -> None:
    source.create("plain", ())
    followed = Followed(source)
    followed.follow()
    for name in ("plain", "none"):
        with pytest.raises(NotFound):
            followed.projection.reload(f"{DB}.{name}")
    assert followed.projection.states.waiting() == {}


def test_columns_are_found_by_their_values_as_soon_as_one_is_strictly_a_time() -> None:
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


def test_lens_properties_are_believed_while_they_make_sense() -> None:
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
    followed.projection.reload(f"{DB}.good")
    assert days_of(followed)[f"{DB}.good"] == {"2015-01-05"}, "a rebuild asks the partitions"


def test_time_columns_that_are_named_later_have_the_table_loaded(source: MemorySource) -> None:
    followed = Followed(source, Rules())
    followed.follow()
    assert days_of(followed) == {}
    source.alter("a", "a", {TIME_COLUMNS: "dt"})
    followed.follow()
    assert days_of(followed) == expected(source)
    source.alter("a", "a", {})
    followed.follow()
    assert followed.follower.timelines.tables() == [], "and forgotten when they are not named any more"


def test_new_rules_have_all_tables_looked_at_again(source: MemorySource) -> None:
    source.create("b")
    source.add("b", "2015-01-02", "x")
    followed = Followed(source)
    followed.follow()
    store = followed.store
    narrower = Followed(source, Rules((Rule((f"{DB}.b",), columns=("dt",)),), lens=False), store)
    narrower.follow()
    assert days_of(narrower) == {f"{DB}.b": {"2015-01-02"}}
    assert source.listings == 2, "a table whose rule is the same is not listed again"
    wider = Followed(source, RULES, store)
    wider.follow()
    assert days_of(wider) == expected(source)


def test_the_position_of_a_part_is_kept_exactly(source: MemorySource) -> None:
    followed = Followed(source)
    followed.follow()
    part = PartitionsAdded(
        event_id=len(source.events) + 1, part=0, parts=3, time_s=0, kind="WRITE", owner=None, partitions=()
    )
    followed.projection.apply([part])
    stored = followed.store.get(POSITION_KEY)
    assert stored is not None
    assert Position.from_bytes(stored) == Position(part.event_id, 0, 3)
