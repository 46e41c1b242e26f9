"""Answers about partitions: as values, over HTTP, by the client and as text."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from pydantic import TypeAdapter

from daemon.catalog.access import RemoteAnswers
from daemon.catalog.branch import OpenSource
from daemon.catalog.queries import query_routes
from daemon.partitions.answers import PartitionAnswers, PartitionsView, plain
from daemon.partitions.commands import check_text, count_text, explain_text, filter_text, listing_text
from daemon.partitions.metrics import PartitionMeasures, PartitionMetrics
from daemon.partitions.pages import partition_pages
from daemon.partitions.queries import (
    QUERIES,
    CountPartitions,
    ExplainFilter,
    FilterPartitions,
    ListTables,
    NamesByValues,
    PartitionsByExpression,
)
from daemon.status.address import DaemonAddress
from daemon.status.client import fetch
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.following.table_state import LoadProgress
from handlers.catalog.index.partition_follower import PartitionFollower, PartitionRules
from handlers.catalog.projection import CatalogProjection
from handlers.structs.objects import SkewedInfo
from state.errors import BadFilter, BadInput, InvalidRequest, NotFound
from state.partitions.filters.hive_expressions import Call, ColumnReference, Constant
from state.partitions.index import check_budget
from state.store.memory import MemoryStore
from tests.builders.daemon.assembly import app_of, registry_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import asked, served


if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

    from prometheus_client import CollectorRegistry

    from daemon.http.transport.server import HttpServer
    from daemon.partitions.queries import PartitionQuery
    from handlers.catalog.index.partition_drift import PartitionComparison
    from state.partitions.filters.hive_expressions import Expression


TEXT_MAX = 1_000_000
TABLE = f"{DB}.a"
DAYS = [f"2015-01-0{day}" for day in range(1, 5)]


def follower_of(source: Any) -> PartitionFollower:
    """An index that has loaded everything."""
    follower = PartitionFollower(PartitionRules((f"{DB}.*",)))
    projection = CatalogProjection(source_name="s", source=source, store=MemoryStore(), followers=[follower])
    projection.open()
    projection.load_all()
    return follower


def finished(work: Generator[None, None, PartitionComparison]) -> PartitionComparison:
    """Do all steps of a comparison."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: PartitionComparison = done.value
            return found


def view_of(follower: PartitionFollower, **changes: Any) -> PartitionsView:
    """An index with nothing left to load."""
    return PartitionsView(
        follower=follower, event_id=10, waiting={}, quarantined={}, under_load={}, **changes
    )


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
    view = PartitionsView(
        follower=follower,
        event_id=10,
        waiting={f"{DB}.new": "snapshot"},
        quarantined={f"{DB}.b": "[malformed-event] broken"},
        under_load={f"{DB}.new": LoadProgress(9, ("dt",), "dt=1", 500, 2000)},
        observer=measures,
    )
    views = [OpenSource("lake", lambda: view), OpenSource("late", lambda: None)]
    return PartitionAnswers(views, {"lake": 12}.get)


@pytest.fixture
def server(answers: PartitionAnswers, registry: CollectorRegistry) -> Iterator[HttpServer]:
    with served(app_of(*query_routes(QUERIES, answers, reads_store=True), registry=registry)) as running:
        yield running


@pytest.fixture
def address(server: HttpServer) -> DaemonAddress:
    return DaemonAddress(f"http://127.0.0.1:{server.port}")


@pytest.fixture
def remote(address: DaemonAddress) -> RemoteAnswers:
    return RemoteAnswers(address)


def filtered(text: str = "", **changes: Any) -> FilterPartitions:
    return FilterPartitions(**{"name": TABLE, "filter": text, **changes})


def test_a_filter_is_answered_with_whole_partitions_and_the_event_they_reflect(
    answers: PartitionAnswers,
) -> None:
    answer = answers.answer(filtered("dt >= '2015-01-03'"))
    assert [one["values"] for one in answer["partitions"]] == [[day, "x"] for day in DAYS[2:]]
    assert answer["partitions"][0]["sd"]["location"] == "/w/a/dt=2015-01-03/x=x"
    assert answer["partitions"][0]["parameters"] == {"numRows": "1"}
    assert (answer["partitions"][0]["dbName"], answer["partitions"][0]["tableName"]) == (DB, "a")
    assert (answer["event_id"], answer["current_event_id"]) == (7, 12), "of the snapshot"
    assert (answer["state"], answer["truncated"]) == ("following", False)


@pytest.mark.parametrize(
    "query",
    [
        ListTables(),
        filtered("x = 'x'"),
        filtered(names=True),
        CountPartitions(name=TABLE),
        ExplainFilter(name=TABLE, filter="x = 'x'"),
        NamesByValues(name=TABLE, values="/x"),
        PartitionsByExpression(name=TABLE, expr="AQ"),
    ],
    ids=lambda query: type(query).__name__,
)
def test_every_answer_has_the_form_that_the_api_describes(
    answers: PartitionAnswers, query: PartitionQuery
) -> None:
    check_form(TypeAdapter(query.form), orjson.dumps(answers.answer(query)))


def test_an_answer_says_where_it_was_cut_off(answers: PartitionAnswers) -> None:
    some = answers.answer(filtered(names=True, limit=2))
    assert some["names"] == [f"dt={day}/x=x" for day in DAYS[:2]]
    assert some["truncated"] is True
    assert answers.answer(filtered(limit=0))["partitions"] == []
    assert "raise --max" in filter_text(some)


def test_a_quarantined_table_answers_and_says_so(answers: PartitionAnswers) -> None:
    counted = answers.answer(CountPartitions(name=f"{DB}.b"))
    assert (counted["count"], counted["state"]) == (1, "quarantined")
    assert "[malformed-event] broken" in count_text(counted)


def test_what_is_not_there_or_not_clear_is_told(answers: PartitionAnswers) -> None:
    with pytest.raises(NotFound, match="load has not begun"):
        answers.answer(filtered(name=f"{DB}.new"))
    with pytest.raises(NotFound, match="partitions list"):
        answers.answer(filtered(name=f"{DB}.none"))
    with pytest.raises(NotFound, match="no partition index"):
        answers.answer(filtered(source="pond"))
    with pytest.raises(BadFilter) as error:
        answers.answer(filtered("dt = '1' and zz = 2"))
    assert error.value.context["position"] == 13
    with pytest.raises(InvalidRequest):
        answers.answer(NamesByValues(name=TABLE, values="1/2/3"))


def test_a_table_of_two_sources_has_to_be_told_apart(follower: PartitionFollower) -> None:
    view = view_of(follower)
    both = PartitionAnswers([OpenSource(name, lambda: view) for name in ("lake", "pond")], lambda _: None)
    with pytest.raises(BadInput, match="several sources"):
        both.answer(CountPartitions(name=TABLE))
    assert both.answer(CountPartitions(name=TABLE, source="pond"))["count"] == 4


def test_the_client_gets_what_the_process_answers(answers: PartitionAnswers, remote: RemoteAnswers) -> None:
    odd = filtered('x = "it\'s"', name=f"{DB}.b", limit=5, names=True)
    assert remote.answer(odd) == answers.answer(odd)
    assert remote.answer(odd)["names"] == ["dt=2015-01-01/x=it%27s"]
    assert remote.answer(filtered("dt = '2015-01-01'")) == answers.answer(filtered("dt = '2015-01-01'"))
    assert remote.answer(CountPartitions(name=TABLE, filter="x = 'x'"))["count"] == 4
    by_values = NamesByValues(name=f"{DB}.b", values="/it%27s")
    assert (
        remote.answer(by_values)["names"] == answers.answer(by_values)["names"] == ["dt=2015-01-01/x=it%27s"]
    )
    by_expression = PartitionsByExpression(name=TABLE, expr="Af8", limit=2)
    assert remote.answer(by_expression) == answers.answer(by_expression)
    assert remote.answer(by_expression)["has_unknown"] is True
    assert remote.answer(ExplainFilter(name=TABLE, filter="x = 'x'"))["matched_rows"] == 4
    assert remote.answer(ListTables(prefix=DB))["total"] == 3


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        (f"/{TABLE}?filter=dt%20=", 400, "bad-filter"),
        (f"/{TABLE}?filter=dt={'0' * 4301}", 400, "bad-filter"),
        (f"/{TABLE}?filter=dt={'9' * 4301}", 400, "bad-filter"),
        (f"/{TABLE}?filter=dt='open", 400, "bad-filter"),
        (f"/{TABLE}/count?filter=%20", 400, "bad-filter"),
        (f"/{TABLE}/count?filter={'(' * 101}dt=1", 400, "limit-exceeded"),
        (f"/{TABLE}?max=x", 400, "bad-input"),
        (f"/{TABLE}?max=100001", 400, "bad-input"),
        (f"/{TABLE}?max=-1", 400, "bad-input"),
        (f"/{TABLE}?names=perhaps", 400, "bad-input"),
        (f"/{TABLE}?dialect=hive9", 400, "'hive2' or 'hive4'"),
        (f"/{TABLE}?name={TABLE}", 400, "unknown parameter"),
        (f"/{TABLE}?colour=red", 400, "bad-input"),
        (f"/{TABLE}?filter={'x' * 8001}", 400, "bad-input"),
        (f"/{TABLE}?source={'x' * 513}", 400, "bad-input"),
        (f"/{TABLE}/by_expr?expr=%21", 400, "bad-input"),
        (f"/{TABLE}/names_ps?values=1/2/3", 400, "invalid-request"),
        (f"/{DB}.none", 404, "not-found"),
        ("?source=pond", 404, "not-found"),
    ],
)
def test_a_question_that_cannot_be_answered_has_a_code(
    address: DaemonAddress, path: str, code: int, said: str
) -> None:
    answered, body = fetch(address, f"/api/v1/partitions{path}")
    assert (answered, said in body.decode()) == (code, True), body


def test_a_filter_that_takes_too_long_to_check_has_a_code(
    address: DaemonAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_budget, "CHECK_S", -1)
    answered, body = fetch(address, f"/api/v1/partitions/{TABLE}/count?filter=x!='y'%20or%20dt!='z'")
    assert (answered, b"filter-too-expensive" in body) == (400, True), body


def test_the_texts_tell_what_the_answers_hold(answers: PartitionAnswers) -> None:
    listing = listing_text(answers.answer(ListTables()))
    assert "500 of 2000 loaded" in listing
    assert "dt string, x string" in listing
    assert "lake: 2 tables, 5 partitions, 1 still loading, as of event 10, source at 12" in listing
    assert "/w/a/dt=2015-01-01/x=x" in filter_text(answers.answer(filtered()))
    explained = explain_text(answers.answer(ExplainFilter(name=TABLE, filter="x = 'x'")))
    assert "postings of x" in explained
    assert "estimated 0, scanned 4, matched 4" in explained


def test_a_check_tells_the_differences(follower: PartitionFollower) -> None:
    from dataclasses import asdict

    from handlers.catalog.following.background import CallsAtOnce
    from handlers.catalog.index.partition_drift import compare_partitions

    source: Any = MemorySource()
    source.create("a")
    for day in DAYS[1:]:
        source.add("a", day, "x", parameters={"numRows": "1" if day != DAYS[2] else "2"})
    source.add("a", "2016-01-01", "x")
    found = finished(compare_partitions(CallsAtOnce(source), follower, TABLE, lambda: 6))
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

    view = view_of(follower, read=read)
    answers = PartitionAnswers([OpenSource("lake", lambda: view)], lambda _: None)
    answer = answers.answer(PartitionsByExpression(name=TABLE, expr="a3J5bw"))
    assert [one["values"] for one in answer["partitions"]] == [["2015-01-02", "x"]]
    assert (answer["has_unknown"], asked) == (False, [b"kryo"])


def test_answers_are_measured(answers: PartitionAnswers, registry: CollectorRegistry) -> None:
    answers.answer(filtered("x = 'x' and dt > '2015-01-02'"))
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


def page(answers: PartitionAnswers, path: str) -> str:
    with served(app_of(*partition_pages(answers))) as running:
        return html.unescape(asked(running.port, path).text)


def test_the_list_has_the_tables_and_those_that_are_loaded(answers: PartitionAnswers) -> None:
    text = page(answers, "/partitions")
    assert f'href="/partitions/{TABLE}?source=lake"' in text
    assert "500 of 2,000" in text
    assert "malformed-event" in text
    assert f"{DB}.new" not in page(answers, f"/partitions?filter={TABLE}")


def test_a_page_shows_which_keys_are_read_and_which_match(answers: PartitionAnswers) -> None:
    text = page(answers, f"/partitions/{TABLE}?filter=dt+>=+'2015-01-03'&dialect=hive4")
    # The last two of four keys.
    assert 'd="M500 0h500v1h-500z"' in text
    assert "dt=2015-01-03/x=x" in text
    assert "dt=2015-01-01/x=x" not in text
    assert "No partition matches" in page(answers, f"/partitions/{TABLE}?filter=dt='1999-01-01'")


def test_a_wrong_filter_is_reported_beside_the_form(answers: PartitionAnswers) -> None:
    text = page(answers, f"/partitions/{TABLE}?filter=dt+>=+&source=lake")
    assert 'class="bad-text" role="status"' in text
    assert ">dt >= </textarea>" in text


def test_the_spans_of_a_filter_are_where_its_keys_are(answers: PartitionAnswers) -> None:
    def spans(text: str) -> list[tuple[int, int]]:
        explained = answers.answer(ExplainFilter(name=TABLE, filter=text))
        assert explained["table_rows"] == len(DAYS)
        return [tuple(span) for span in explained["spans"]]

    assert spans("") == [(0, 4)]
    assert spans("dt = '2015-01-02'") == [(1, 2)]
    assert spans("dt = '2015-01-01' or dt = '2015-01-04'") == [(0, 1), (3, 4)]
    assert spans("dt < '2015-01-03'") == [(0, 2)]


def test_the_picture_of_a_filter_over_20_000_partitions_has_limits() -> None:
    source = MemorySource()
    source.create("a")
    for number in range(20_000):
        source.add("a", f"{2000 + number // 365}-{number % 365:03}", "x")
    view = view_of(follower_of(source))
    answers = PartitionAnswers([OpenSource("lake", lambda: view)], {"lake": 1}.get)
    with served(app_of(*partition_pages(answers))) as running:
        text = asked(running.port, f"/partitions/{TABLE}?filter=dt+>=+'2050'").text
    assert "of 20,000" in text
    assert len(text) < TEXT_MAX
