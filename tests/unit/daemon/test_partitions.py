"""Answers about partitions: as values, over HTTP, by the client and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from daemon.partitions.answers import FilterQuestion, KnownPartitions, PartitionAnswers, PartitionView, plain
from daemon.partitions.client import RemotePartitions
from daemon.partitions.metrics import PartitionMeasures, PartitionMetrics
from daemon.partitions.routes import partition_routes
from daemon.partitions.text import check_text, count_text, explain_text, filter_text, listing_text
from daemon.status.client import fetch
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.table_states import LoadProgress
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.structs.objects import SkewedInfo
from state.errors import BadFilter, BadInput, InvalidRequest, NotFound
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant
from state.store.memory import MemoryStore
from tests.builders.daemon.assembly import app_of, registry_of
from tests.builders.daemon.http_client import served


if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import CollectorRegistry

    from daemon.http.server import HttpServer
    from state.partitions.filters.hive_expressions import Expression


TABLE = f"{DB}.a"
DAYS = [f"2015-01-0{day}" for day in range(1, 5)]


def follower_of(source: Any) -> PartitionFollower:
    """An index that has loaded everything."""
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    projection = CatalogProjection(source_name="s", source=source, store=MemoryStore(), followers=[follower])
    projection.open()
    projection.load_all()
    return follower


@pytest.fixture(scope="module")
def follower() -> PartitionFollower:
    source = MemorySource()
    source.create("a")
    source.create("b")
    for day in DAYS:
        source.add("a", day, "x", parameters={"numRows": "1"})
    source.add("b", "2015-01-01", "it's")
    return follower_of(source)


@pytest.fixture
def registry() -> CollectorRegistry:
    return registry_of()


@pytest.fixture
def answers(follower: PartitionFollower, registry: CollectorRegistry) -> PartitionAnswers:
    measures = PartitionMeasures(PartitionMetrics(registry), "catalog:lake")
    known = KnownPartitions(
        follower,
        10,
        waiting={f"{DB}.new": "snapshot"},
        confined={f"{DB}.b": "[malformed-event] broken"},
        under_load={f"{DB}.new": LoadProgress(9, ("dt",), "dt=1", 500, 2000)},
        observer=measures,
    )
    views = [PartitionView("lake", lambda: known), PartitionView("late", lambda: None)]
    return PartitionAnswers(views, {"lake": 12}.get)


@pytest.fixture
def server(answers: PartitionAnswers, registry: CollectorRegistry) -> Iterator[HttpServer]:
    with served(app_of(*partition_routes(answers), registry=registry)) as running:
        yield running


@pytest.fixture
def url(server: HttpServer) -> str:
    return f"http://127.0.0.1:{server.port}"


@pytest.fixture
def remote(url: str) -> RemotePartitions:
    return RemotePartitions(url)


def question(text: str = "", **changes: Any) -> FilterQuestion:
    return FilterQuestion(**{"table": TABLE, "filter": text, **changes})


def test_a_filter_is_answered_with_whole_partitions_and_the_event_they_reflect(
    answers: PartitionAnswers,
) -> None:
    answer = answers.filter(question("dt >= '2015-01-03'"))
    assert [one["values"] for one in answer["partitions"]] == [[day, "x"] for day in DAYS[2:]]
    assert answer["partitions"][0]["sd"]["location"] == "/w/a/dt=2015-01-03/x=x"
    assert answer["partitions"][0]["parameters"] == {"numRows": "1"}
    assert (answer["partitions"][0]["dbName"], answer["partitions"][0]["tableName"]) == (DB, "a")
    assert (answer["event_id"], answer["current_event_id"]) == (10, 12)
    assert (answer["state"], answer["truncated"]) == ("following", False)


def test_an_answer_says_where_it_was_cut_off(answers: PartitionAnswers) -> None:
    some = answers.filter(question(names=True, most=2))
    assert some["names"] == [f"dt={day}/x=x" for day in DAYS[:2]]
    assert some["truncated"] is True
    assert answers.filter(question(most=0))["partitions"] == []
    assert len(answers.filter(question(most=-1))["partitions"]) == 4
    assert "raise --max" in filter_text(some)


def test_a_quarantined_table_answers_and_says_so(answers: PartitionAnswers) -> None:
    counted = answers.count(question(table=f"{DB}.b"))
    assert (counted["count"], counted["state"]) == (1, "quarantined")
    assert "[malformed-event] broken" in count_text(counted)


def test_what_is_not_there_or_not_clear_is_told(answers: PartitionAnswers) -> None:
    with pytest.raises(NotFound, match="waits to be loaded"):
        answers.filter(question(table=f"{DB}.new"))
    with pytest.raises(NotFound, match="partitions list"):
        answers.filter(question(table=f"{DB}.none"))
    with pytest.raises(NotFound, match="no partition index"):
        answers.filter(question(source="pond"))
    with pytest.raises(BadInput, match="dialect"):
        answers.filter(question(dialect="hive9"))
    with pytest.raises(BadFilter) as error:
        answers.filter(question("dt = '1' and zz = 2"))
    assert error.value.context["position"] == 13
    with pytest.raises(InvalidRequest):
        answers.names_ps(TABLE, ["1", "2", "3"])


def test_a_table_of_two_sources_has_to_be_told_apart(follower: PartitionFollower) -> None:
    known = KnownPartitions(follower, 1, {}, {}, {})
    both = PartitionAnswers([PartitionView(name, lambda: known) for name in ("lake", "pond")], lambda _: None)
    with pytest.raises(BadInput, match="several sources"):
        both.count(question())
    assert both.count(question(source="pond"))["count"] == 4


def test_the_client_gets_what_the_process_answers(
    answers: PartitionAnswers, remote: RemotePartitions
) -> None:
    odd = question('x = "it\'s"', table=f"{DB}.b", most=5, names=True)
    assert remote.filter(odd) == answers.filter(odd)
    assert remote.filter(odd)["names"] == ["dt=2015-01-01/x=it%27s"]
    assert remote.filter(question("dt = '2015-01-01'")) == answers.filter(question("dt = '2015-01-01'"))
    assert remote.count(question("x = 'x'"))["count"] == 4
    assert remote.names_ps(f"{DB}.b", ["", "it's"]) == answers.names_ps(f"{DB}.b", ["", "it's"])
    assert remote.by_expr(TABLE, b"\x01\xff", 2) == answers.by_expr(TABLE, b"\x01\xff", 2)
    assert remote.by_expr(TABLE, b"\x01\xff")["has_unknown"] is True
    assert remote.explain(question("x = 'x'"))["matched_rows"] == 4
    assert remote.listing(prefix=DB)["total"] == 3


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        (f"/{TABLE}?filter=dt%20=", 400, "bad-filter"),
        (f"/{TABLE}?max=x", 400, "bad-input"),
        (f"/{TABLE}?max=10001", 400, "bad-input"),
        (f"/{TABLE}?colour=red", 400, "bad-input"),
        (f"/{TABLE}?filter={'x' * 8001}", 400, "bad-input"),
        (f"/{TABLE}?source={'x' * 513}", 400, "bad-input"),
        (f"/{TABLE}/by_expr?expr=%21", 400, "bad-input"),
        (f"/{TABLE}/names_ps?values=1/2/3", 400, "invalid-request"),
        (f"/{DB}.none", 404, "not-found"),
        ("?source=pond", 404, "not-found"),
    ],
)
def test_a_question_that_cannot_be_answered_has_a_code(url: str, path: str, code: int, said: str) -> None:
    answered, body = fetch(url, f"/api/v1/partitions{path}")
    assert (answered, said in body.decode()) == (code, True), body


def test_the_texts_tell_what_the_answers_hold(answers: PartitionAnswers) -> None:
    listing = listing_text(answers.listing())
    assert "500 of 2000 loaded" in listing
    assert "dt string, x string" in listing
    assert "lake: 2 tables, 5 partitions, 1 tables to load, as of event 10, source at 12" in listing
    assert "/w/a/dt=2015-01-01/x=x" in filter_text(answers.filter(question()))
    explained = explain_text(answers.explain(question("x = 'x'")))
    assert "postings of x" in explained
    assert "estimated 0, scanned 4, matched 4" in explained


def test_a_check_tells_the_differences(follower: PartitionFollower) -> None:
    from dataclasses import asdict

    from handlers.catalog.index.partition_drift import compare_partitions

    source: Any = MemorySource()
    source.create("a")
    for day in DAYS[1:]:
        source.add("a", day, "x", parameters={"numRows": "1" if day != DAYS[2] else "2"})
    source.add("a", "2016-01-01", "x")
    found = compare_partitions(source, follower, TABLE, 6)
    assert (found.missing, found.surplus) == (["dt=2016-01-01/x=x"], ["dt=2015-01-01/x=x"])
    assert found.differing == {"dt=2015-01-03/x=x": ["parameters"]}
    assert (found.compared, found.drift, found.moving) == (3, 3, True)
    text = check_text({"table": TABLE, "event_id": 5, "drift": found.drift, **asdict(found)})
    assert "missing dt=2016-01-01/x=x" in text
    assert "dt=2015-01-03/x=x differs in parameters" in text


def test_an_expression_that_is_read_is_answered_exactly(follower: PartitionFollower) -> None:
    asked: list[bytes] = []

    def read(expression: bytes) -> Expression:
        asked.append(expression)
        function = "org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual"
        return Call(function, (ColumnReference("dt", "string"), Constant("2015-01-02", "string")))

    known = KnownPartitions(follower, 10, {}, {}, {}, read=read)
    answers = PartitionAnswers([PartitionView("lake", lambda: known)], lambda _: None)
    answer = answers.by_expr(TABLE, b"kryo")
    assert [one["values"] for one in answer["partitions"]] == [["2015-01-02", "x"]]
    assert (answer["has_unknown"], asked) == (False, [b"kryo"])


def test_answers_are_measured(answers: PartitionAnswers, registry: CollectorRegistry) -> None:
    answers.filter(question("x = 'x' and dt > '2015-01-02'"))
    get = registry.get_sample_value
    labels = {"projection": "catalog:lake"}
    assert get("tideline_partitions_rows_matched_total", labels) == 2
    scanned = get("tideline_partitions_rows_scanned_total", labels)
    assert scanned is not None
    assert scanned >= 2
    assert get("tideline_partitions_answer_seconds_count", {**labels, "call": "by_filter"}) == 1


def test_maps_without_text_as_keys_can_be_said_in_json() -> None:
    skewed = SkewedInfo(skewedColValueLocationMaps={("a",): "/w/a"})
    assert plain(skewed) == {"skewedColValueLocationMaps": {"('a',)": "/w/a"}}
