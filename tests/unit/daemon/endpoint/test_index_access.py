"""Tables of the index, opened by another process: never older than the request allows, and never a state that
did not exist."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from daemon.endpoint.freshness.newest_event import Freshness
from daemon.endpoint.verification.differing_tables import AnswerDifference
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog import projection
from handlers.catalog.following.loads import steps
from state.errors import MetastoreUnavailable
from tests.builders.catalog.followed_catalog import reload
from tests.builders.catalog.indexed_source import KINDS, Held, expected
from tests.builders.catalog.random_changes import DAYS, NAMES, Change, changes, happen_meanwhile
from tests.builders.partitions.index_access import Opened, opened_index


@pytest.fixture(scope="module", autouse=True)
def _small_pieces() -> Iterator[None]:
    """Tables of a few partitions are loaded in pieces, and one piece at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "PIECE", 2)
        patch.setattr(projection, "LOADING_S", 0.0)
        yield


@pytest.fixture
def source() -> MemorySource:
    made = MemorySource()
    made.create("a")
    for day in DAYS[:5]:
        made.add("a", day, "0")
    return made


@pytest.fixture
def opened(source: MemorySource, tmp_path: Path) -> Iterator[Opened]:
    with opened_index(source, tmp_path) as made:
        made.indexed.follow()
        yield made


STEPS = ("nothing", "apply", "one event", "settle", "load", "read")


@given(
    history=st.lists(st.tuples(changes(KINDS), st.sampled_from(STEPS)), max_size=12),
    during=st.lists(changes(KINDS), max_size=6),
    exact=st.booleans(),
    follows=st.booleans(),
)
@settings(max_examples=50, deadline=None)
def test_an_answer_repeated_or_not_is_the_source_at_its_event_and_not_older_than_the_request_allows(
    history: list[tuple[Change, str]], during: list[Change], exact: bool, follows: bool
) -> None:
    source, past = MemorySource(), {}
    source.create("a")
    for day in DAYS[:5]:
        source.add("a", day, "0")
    happen_meanwhile(source, during)
    change = source.meanwhile

    def remember() -> None:
        past[len(source.events)] = expected(source)

    def change_and_remember() -> None:
        change()
        remember()

    source.meanwhile = change_and_remember
    freshness = Freshness() if exact else Freshness(None)
    with tempfile.TemporaryDirectory() as directory, opened_index(source, Path(directory), freshness) as made:
        if follows:
            made.time.meanwhile = made.indexed.apply
        for one, step in history:
            one.happen(source)
            remember()
            _take(made, step, one.table)
            check(made, past, exact=exact)


def _take(made: Opened, step: str, table: str) -> None:
    match step:
        case "apply":
            made.indexed.apply()
        case "one event":
            made.indexed.apply(made.indexed.projection.position.event_id + 1)
        case "settle":
            made.indexed.projection.settle()
        case "load" if table in made.source.tables:
            made.indexed.projection.request_load(f"{DB}.{table}")


def check(made: Opened, past: dict[int, Held], *, exact: bool) -> None:
    for table in (*NAMES, *NAMES):  # the second time, most answers are repeated
        newest = len(made.source.events)
        answered = made.answer_at(table)
        if answered is None:
            continue
        event_id, found = answered
        assert not exact or event_id >= newest
        if event_id in past:
            assert found == past[event_id].get(f"{DB}.{table}", {})


def test_an_answer_is_repeated_while_its_table_does_not_change_whatever_happens_to_others(
    source: MemorySource, opened: Opened
) -> None:
    first = opened.answer_at("a")
    source.create("b")
    source.add("b", DAYS[0], "0")
    opened.indexed.follow()
    second = opened.answer_at("a")
    assert first is not None
    assert second is not None
    assert second[1] == first[1]
    assert second[0] > first[0], "its freshness is that of the later snapshot"
    assert opened.outcomes.repeated == 1
    source.alter_partition("a", (DAYS[0], "0"), {"numRows": "7"})
    opened.indexed.follow()
    third = opened.answer_at("a")
    assert third is not None
    assert third[1] != first[1]
    assert opened.outcomes.repeated == 1


def test_an_answer_is_not_repeated_where_it_would_not_be_given(source: MemorySource, opened: Opened) -> None:
    def repeated() -> bool:
        before = opened.outcomes.repeated
        opened.answer_at("a")
        return opened.outcomes.repeated > before

    assert [repeated(), repeated()] == [False, True]
    source.add("a", DAYS[5], "0")
    assert not repeated(), "the index is behind"
    opened.indexed.follow()
    assert [repeated(), repeated()] == [False, True]
    opened.indexed.projection.request_load(f"{DB}.a")
    assert not repeated(), "the table waits for a load"
    opened.indexed.follow()
    assert [repeated(), repeated()] == [False, True], "another load may have found other partitions"
    found = opened.access.arrive().read(DB, "a", lambda view: view.snapshot.index.table(f"{DB}.a").number)
    assert isinstance(found, tuple)
    opened.differing.add(AnswerDifference(f"{DB}.a", found[0], "get_partitions", 6, 0))
    assert not repeated(), "an answer differed from the metastore's"
    assert [each.value for each in opened.outcomes.reasons] == ["not-fresh", "not-following", "differs"]


def test_a_follower_that_is_behind_is_waited_for(source: MemorySource, opened: Opened) -> None:
    source.add("a", DAYS[5], "0")
    opened.time.meanwhile = opened.indexed.apply
    assert len(opened.read("a")) == 6
    assert opened.waited_for == [len(source.events)]


def test_a_follower_that_does_not_catch_up_is_waited_for_once(source: MemorySource, opened: Opened) -> None:
    source.add("a", DAYS[5], "0")
    began_s = opened.time.now_s
    assert opened.read("a") == "not-fresh"
    assert 1.0 <= opened.time.now_s - began_s < 1.1
    source.add("a", DAYS[5], "1")
    assert [opened.read("a") for _ in range(3)] == 3 * ["not-fresh"]
    assert opened.time.now_s - began_s < 1.1, "only the first request has waited"
    opened.indexed.follow()
    assert len(opened.read("a")) == 7
    source.add("a", DAYS[5], "2")
    opened.time.meanwhile = opened.indexed.apply
    assert len(opened.read("a")) == 8, "waiting is worth it again"


def test_bounded_freshness_relies_on_an_earlier_query_for_a_while(
    source: MemorySource, tmp_path: Path
) -> None:
    with opened_index(source, tmp_path, Freshness(0.5)) as made:
        made.indexed.follow()
        assert len(made.read("a")) == 5
        source.add("a", DAYS[5], "0")
        made.time.now_s += 0.4
        assert len(made.read("a")) == 5
        assert len(made.queries) == 1
        made.time.now_s += 0.2
        assert made.read("a") == "not-fresh"


def test_eventual_freshness_never_queries_the_source(source: MemorySource, tmp_path: Path) -> None:
    with opened_index(source, tmp_path, Freshness(None)) as made:
        made.indexed.follow()
        source.broken = MetastoreUnavailable("down")
        assert len(made.read("a")) == 5
        assert made.queries == []


def test_no_answer_is_made_from_a_snapshot_that_is_known_to_be_too_old(
    source: MemorySource, opened: Opened
) -> None:
    made: list[int] = []

    def read() -> None:
        opened.access.arrive().read(DB, "a", lambda view: made.append(view.event_id))

    before = len(source.events)
    source.add("a", DAYS[5], "0")
    read()
    assert made == [before], "made while the source was asked, and dropped"
    read()
    assert made == [before]
    opened.indexed.follow()
    read()
    assert made == [before, before + 1]


def test_a_request_that_will_probably_be_answered_queries_at_once_and_only_once(opened: Opened) -> None:
    request = opened.access.arrive(is_likely=True)
    assert len(opened.queries) == 1
    assert isinstance(request.read(DB, "a", lambda view: view.event_id), tuple)
    assert len(opened.queries) == 1
    opened.access.arrive()
    assert len(opened.queries) == 1


def test_a_query_that_was_sent_early_does_not_cover_what_was_committed_after_the_next_request(
    source: MemorySource, opened: Opened
) -> None:
    opened.access.arrive(is_likely=True)  # and never read
    source.add("a", DAYS[5], "0")
    assert opened.read("a") == "not-fresh"


def test_tables_that_are_not_followed_need_no_query(source: MemorySource, opened: Opened) -> None:
    assert opened.read("nowhere") == "unknown-table"
    opened.indexed.projection.request_load(f"{DB}.a")
    assert opened.read("a") == "not-following"
    assert opened.queries == []


def test_a_table_whose_listing_may_contain_later_events_is_answered_only_once_they_are_applied(
    source: MemorySource, tmp_path: Path
) -> None:
    with opened_index(source, tmp_path, Freshness(None)) as made:
        source.meanwhile = lambda: source.drop("a", DAYS[1], "0") if len(source.events) == 6 else None
        made.indexed.projection.load_all()
        assert made.read("a") == "not-following", "it lacks a partition that it had at event 6"
        made.indexed.follow()
        assert len(made.read("a")) == 4


def test_calls_are_forwarded_while_the_newest_event_is_unknown(source: MemorySource, opened: Opened) -> None:
    source.broken = MetastoreUnavailable("down")
    assert opened.read("a") == "unavailable"
    source.broken = None
    assert len(opened.read("a")) == 5


def test_calls_are_forwarded_after_the_source_was_restored_from_a_backup(
    source: MemorySource, opened: Opened
) -> None:
    lost = source.events.pop()
    assert opened.read("a") == "unavailable", "the index is ahead of its source"
    source.events.append(lost)
    assert len(opened.read("a")) == 5


def test_a_table_that_differs_is_forwarded_until_it_is_loaded_again(opened: Opened) -> None:
    found = opened.access.arrive().read(DB, "a", lambda view: view.snapshot.index.table(f"{DB}.a").number)
    assert isinstance(found, tuple)
    number = found[0]
    opened.differing.add(AnswerDifference(f"{DB}.a", number, "get_partitions", 6, 0))
    assert opened.read("a") == "differs"
    reload(opened.indexed.projection, f"{DB}.a")
    assert len(opened.read("a")) == 5


def test_a_state_file_that_does_not_exist_yet_means_forwarding(source: MemorySource, opened: Opened) -> None:
    file = Path(opened.indexed.store.path)  # type: ignore[attr-defined]  # a store in a file
    file.rename(file.with_suffix(".moved"))
    assert opened.read("a") == "unavailable"
