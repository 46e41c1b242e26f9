"""Answers about timelines: as values, over HTTP, by the client and as text."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from daemon.catalog.access import RemoteAnswers
from daemon.catalog.branch import OpenSource
from daemon.catalog.queries import query_routes
from daemon.http.transport.server import HttpServer
from daemon.status.address import DaemonAddress
from daemon.status.client import fetch
from daemon.timelines.answers import TimelineAnswers, TimelinesView
from daemon.timelines.commands import check_text, cover_text, latest_text, listing_text, show_text
from daemon.timelines.pages import timeline_pages
from daemon.timelines.pictures import draw_spans
from daemon.timelines.queries import QUERIES, CoverRange, FindLatest, ListTables, ShowTable, TimelineQuery
from state.errors import BadInput, LimitExceeded, MalformedEvent, NotFound, Transient, Uncoverable
from state.store.memory import MemoryStore
from state.timelines.periods import UpdatePeriod
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings
from state.timelines.time_ranges import TimePartition
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import asked, served
from tests.builders.daemon.loops import daemon_status


TEXT_MAX = 1_000_000
DAYS = "shop.days"
HOURS = "shop.hours"
TWO = "shop.two"


def timelines(tables: Mapping[str, tuple[Sequence[str], Sequence[Sequence[str]]]]) -> Timelines:
    """Timelines of tables, each with its columns and the values of its partitions."""
    made, store = Timelines(), MemoryStore()
    with store.transaction() as txn:
        change = made.change(txn)
        for name, (columns, partitions) in tables.items():
            change.follow(name, TableSettings(tuple(columns), tuple(columns)))
            for values in partitions:
                change.add(name, dict(zip(columns, values, strict=True)))
    change.publish()
    return made


@pytest.fixture
def view() -> TimelinesView:
    sales = Fact("sales", (StorageTable(DAYS), StorageTable(HOURS), StorageTable("shop.gone")))
    held = timelines(
        {
            DAYS: (["dt"], [["2015-01-01"], ["2015-01-02"], ["2015-01-05"]]),
            HOURS: (["dt"], [["2015-01-03-00"], ["2015-01-03-01"]]),
            TWO: (["dt", "pt"], [["2015-01-01", "2015-01"]]),
        }
    )
    return TimelinesView(
        event_id=10,
        waiting={"shop.new": "snapshot"},
        quarantined={TWO: "[malformed-event] broken"},
        timelines=held,
        facts={"sales": sales},
    )


@pytest.fixture
def answers(view: TimelinesView) -> TimelineAnswers:
    pond = TimelinesView(event_id=3, waiting={}, quarantined={}, timelines=timelines({TWO: (["dt"], [])}))
    views = [
        OpenSource("lake", lambda: view),
        OpenSource("pond", lambda: pond),
        OpenSource("late", lambda: None),
    ]
    return TimelineAnswers(views, {"lake": 12}.get)


@pytest.fixture
def server(answers: TimelineAnswers) -> Iterator[HttpServer]:
    status = daemon_status()
    with served(app_of(*query_routes(QUERIES, answers, reads_store=False), status=lambda: status)) as running:
        yield running


@pytest.fixture
def remote(server: HttpServer) -> RemoteAnswers:
    return RemoteAnswers(DaemonAddress(f"http://127.0.0.1:{server.port}"))


def cover(name: str, start: str = "2015-01-01", end: str = "2015-01-04", **changes: Any) -> CoverRange:
    return CoverRange(name=name, start=start, end=end, **changes)


@pytest.mark.parametrize(
    "query",
    [
        ListTables(),
        ShowTable(name=DAYS),
        ShowTable(name=TWO, source="lake"),
        FindLatest(name="sales"),
        cover("sales"),
        cover(DAYS, where="in"),
    ],
    ids=str,
)
def test_every_answer_has_the_form_that_the_api_describes(
    answers: TimelineAnswers, query: TimelineQuery
) -> None:
    check_form(TypeAdapter(query.form), orjson.dumps(answers.answer(query)))


def test_every_answer_tells_the_event_it_reflects_and_where_the_source_is(answers: TimelineAnswers) -> None:
    queries: list[TimelineQuery] = [ShowTable(name=DAYS), FindLatest(name=DAYS), cover(DAYS)]
    for answer in map(answers.answer, queries):
        assert (answer["event_id"], answer["current_event_id"]) == (10, 12)
        assert answer["states"] == {DAYS: "following"}
    listed = answers.answer(ListTables())["sources"]
    assert (listed["lake"]["event_id"], listed["lake"]["current_event_id"]) == (10, 12)
    assert listed["lake"]["loading"] == 1
    assert listed["pond"]["current_event_id"] is None
    assert "late" not in listed, "its state is not open yet"


def test_a_fact_is_covered_from_all_its_tables_and_what_is_missing_is_told(answers: TimelineAnswers) -> None:
    answer = answers.answer(cover("sales", where="in", alias="s"))
    assert [(run["table"], run["first"], run["last"]) for run in answer["runs"]] == [
        (DAYS, "2015-01-01", "2015-01-02"),
        (HOURS, "2015-01-03-00", "2015-01-03-01"),
    ]
    assert answer["missing"] == [{"period": "HOURLY", "range": "[2015-01-03-02, 2015-01-04-00)"}]
    assert answer["where"] == {
        DAYS: "(s.dt IN ('2015-01-01','2015-01-02'))",
        HOURS: "(s.dt IN ('2015-01-03-00','2015-01-03-01'))",
    }
    assert answers.answer(FindLatest(name="sales"))["latest"] == {
        "dt": {"period": "DAILY", "value": "2015-01-05"}
    }
    with pytest.raises(Uncoverable):
        answers.answer(cover("sales", strict=True))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("or", "(dt = '2015-01-01') OR (dt = '2015-01-02')"),
        ("between", "(dt BETWEEN '2015-01-01' AND '2015-01-02')"),
    ],
)
def test_the_condition_is_written_as_asked(answers: TimelineAnswers, where: str, text: str) -> None:
    assert answers.answer(cover(DAYS, where=where))["where"] == {DAYS: text}


def test_between_is_refused_where_it_would_select_an_ignored_value() -> None:
    days = [["2024-01-01"], ["2024-01-02"], ["2024-01-02_backup"], ["2024-01-03"], ["latest"]]
    view = TimelinesView(event_id=1, waiting={}, quarantined={}, timelines=timelines({DAYS: (["dt"], days)}))
    answers = TimelineAnswers([OpenSource("lake", lambda: view)], lambda _: None)
    with pytest.raises(BadInput, match="2024-01-02_backup"):
        answers.answer(cover(DAYS, "2024-01-01", "2024-01-04", where="between"))
    for where in ("in", "or"):
        assert "backup" not in str(
            answers.answer(cover(DAYS, "2024-01-01", "2024-01-04", where=where))["where"]
        )
    shown = answers.answer(ShowTable(name=DAYS))
    assert [one["partitions"] for one in shown["timelines"]] == [3]
    assert shown["ignored"] == [
        {"column": "dt", "count": 2, "more_than": None, "values": ["2024-01-02_backup", "latest"]}
    ]
    text = show_text(shown)
    assert "dt DAILY (ends-and-holes): 3 partitions" in text
    assert "dt: 2 values are ignored" in text
    assert "  ignored 2024-01-02_backup" in text


def test_ignored_values_that_are_too_many_or_not_known_are_said_to_be() -> None:
    shown = {"table": DAYS, "source": "lake", "event_id": 1, "current_event_id": 1, "timelines": []}
    shown |= {"states": {}, "problems": {}, "table_states": {}, "stale": False}
    many = show_text(shown | {"ignored": [{"column": "dt", "count": None, "more_than": 1000, "values": []}]})
    assert "dt: more than 1000 values are ignored" in many
    none = show_text(shown | {"ignored": [{"column": "dt", "count": None, "more_than": None, "values": []}]})
    assert "timeline rebuild" in none


def test_a_condition_of_a_million_values_is_refused(
    monkeypatch: pytest.MonkeyPatch, answers: TimelineAnswers
) -> None:
    monkeypatch.setattr("daemon.timelines.answers.CONDITION_PARTITIONS_MAX", 1)
    with pytest.raises(LimitExceeded):
        answers.answer(cover(DAYS, where="in"))
    assert answers.answer(cover(DAYS, where="between"))["where"]


def test_a_quarantined_table_answers_and_says_so(answers: TimelineAnswers) -> None:
    shown = answers.answer(ShowTable(name=TWO, source="lake"))
    assert shown["states"] == {TWO: "quarantined"}
    assert shown["problems"] == {TWO: "[malformed-event] broken"}
    assert "shop.two is quarantined" in show_text(shown)


def test_what_is_not_clear_is_asked_back(answers: TimelineAnswers) -> None:
    with pytest.raises(BadInput, match="several sources"):
        answers.answer(ShowTable(name=TWO))
    with pytest.raises(BadInput, match="several time columns"):
        answers.answer(cover(TWO, source="lake"))
    with pytest.raises(NotFound, match="load has not begun"):
        answers.answer(ShowTable(name="shop.new"))
    with pytest.raises(NotFound, match="no timelines"):
        answers.answer(ShowTable(name="shop.none"))
    with pytest.raises(NotFound, match="no catalog follows"):
        answers.answer(ListTables(source="sea"))
    with pytest.raises(NotFound):
        TimelineAnswers([], lambda _: None).answer(ListTables())


def test_a_client_gets_over_http_what_the_daemon_answers(
    answers: TimelineAnswers, remote: RemoteAnswers
) -> None:
    assert remote.answer(ListTables(prefix="shop.d")) == answers.answer(ListTables(prefix="shop.d"))
    assert remote.answer(ListTables(limit=1))["total"] == 4
    assert remote.answer(ShowTable(name=DAYS)) == answers.answer(ShowTable(name=DAYS))
    assert remote.answer(FindLatest(name="sales", column="dt")) == answers.answer(
        FindLatest(name="sales", column="dt")
    )
    asked = cover("sales", where="or", periods="DAILY,HOURLY", min_count=True)
    assert remote.answer(asked) == answers.answer(asked)
    with pytest.raises(Uncoverable) as caught:
        remote.answer(cover("sales", strict=True))
    assert caught.value.context["missing"] == ["[2015-01-03-02, 2015-01-04-00)"]
    with pytest.raises(NotFound):
        remote.answer(ShowTable(name="shop.none"))


@pytest.mark.parametrize(
    "path",
    [
        "?nothing=1",
        "?limit=-1",
        "?limit=1001",
        f"/{DAYS}/cover?from=2015-01-01",
        f"/{DAYS}/cover?from=2015-01-01&to=yesterday",
        f"/{DAYS}/cover?from=2015-01-02&to=2015-01-01",
        f"/{DAYS}/cover?from=2015-01-01&to=2015-01-02&strict=perhaps",
        f"/{DAYS}/cover?from=2015-01-01&to=2015-01-02&periods=NIGHTLY",
        f"/{DAYS}/cover?from=2015-01-01&to=2015-01-02&where=like",
        f"/{DAYS}/latest?column={'x' * 600}",
    ],
)
def test_a_strange_question_is_answered_with_400(server: HttpServer, path: str) -> None:
    code, body = fetch(DaemonAddress(f"http://127.0.0.1:{server.port}"), f"/api/v1/timelines{path}")
    assert code == 400, body
    assert b'"code":' in body


def test_a_daemon_without_a_catalog_and_no_daemon_at_all_are_told_apart() -> None:
    with served(app_of()) as running, pytest.raises(MalformedEvent, match="not a JSON object"):
        RemoteAnswers(DaemonAddress(f"http://127.0.0.1:{running.port}")).answer(ListTables())
    with pytest.raises(Transient):
        RemoteAnswers(DaemonAddress(f"http://127.0.0.1:{running.port}")).answer(ListTables())


def test_the_texts_say_what_the_values_say(answers: TimelineAnswers) -> None:
    shown = show_text(answers.answer(ShowTable(name=DAYS)))
    assert "2015-01-01 |██··█| 2015-01-05" in shown
    assert "missing 2015-01-03 to 2015-01-04" in shown
    listed = listing_text(answers.answer(ListTables()))
    assert "lake: 3 tables" in listed
    assert "1 still loading" in listed
    assert "more tables" in listing_text(answers.answer(ListTables(limit=1)))
    covered = cover_text(answers.answer(cover("sales", where="in")))
    assert "NOT complete, 4 partitions" in covered
    assert "missing HOURLY [2015-01-03-02, 2015-01-04-00)" in covered
    assert "2015-01-05  DAILY" in latest_text(answers.answer(FindLatest(name=DAYS)))
    drift = {"column": "dt", "period": "DAILY", "missing": ["[a, b)"], "surplus": []}
    found = {"table": DAYS, "event_id": 1, "current_event_id": 2, "moving": True, "drift": [drift]}
    assert "missing [a, b)" in check_text(found)
    assert "matches the source" in check_text(found | {"drift": []})


def page(answers: TimelineAnswers, path: str) -> str:
    with served(app_of(*timeline_pages(answers))) as running:
        return asked(running.port, path).text


def test_the_list_has_every_table_of_every_source_and_filters_them(answers: TimelineAnswers) -> None:
    text = page(answers, "/timelines")
    assert text.count(f'href="/timelines/{TWO}?source=') == 2
    assert "2015-01-05" in text
    assert DAYS not in page(answers, "/timelines?filter=two")


def test_a_page_draws_runs_and_holes_and_covers_a_range(answers: TimelineAnswers) -> None:
    text = page(answers, f"/timelines/{DAYS}")
    # Two of five days are missing: two fifths of the axis, after the first two fifths.
    assert 'class="missing" d="M400 0h400v1h-400z"' in text
    assert "2015-01-03 to 2015-01-04" in text
    text = page(answers, f"/timelines/{DAYS}?from=2015-01-01&to=2015-01-04&where=in")
    assert ": 2 partitions in 1 run within [2015-01-01, 2015-01-04), 1 d missing." in text
    assert "dt IN (" in html.unescape(text)
    assert "he table has no timelines" in page(answers, "/timelines/sales")


def test_a_wrong_range_is_reported_beside_the_form(answers: TimelineAnswers) -> None:
    text = page(answers, f"/timelines/{DAYS}?from=soon&to=2015-01-04&where=in&source=lake")
    assert "Not a timestamp" in text or "not a timestamp" in text
    assert 'value="soon"' in text


def test_a_single_missing_hour_of_ten_years_is_drawn() -> None:
    axis = (0, 10 * 365 * 86_400)
    assert draw_spans([(3_600, 7_200)], axis) == "M0 0h1v1h-1z"
    assert draw_spans([(axis[1] - 1, axis[1])], axis) == "M999 0h1v1h-1z"
    # Spans that touch are one rectangle.
    assert draw_spans([(0, 86_400), (86_400, 5 * 86_400)], axis) == "M0 0h2v1h-2z"


def test_lists_of_100_000_tables_have_pages_and_a_picture_has_limits() -> None:
    made = Timelines()
    with MemoryStore().transaction() as txn:
        change = made.change(txn)
        for number in range(100_000):
            change.follow(f"shop.t{number:06}", TableSettings(("dt",), ("dt",)))
        for number in range(0, 20_000, 2):
            change.add("shop.t000007", {"dt": str(TimePartition(UpdatePeriod.HOURLY, 400_000 + number))})
        change.publish()
    view = TimelinesView(event_id=1, waiting={}, quarantined={}, timelines=made)
    answers = TimelineAnswers([OpenSource("lake", lambda: view)], {"lake": 1}.get)
    with served(app_of(*timeline_pages(answers))) as running:
        for path, expected in {
            "/timelines": "Page 1 of 2,000, 100,000 tables",
            "/timelines?filter=t0999": "100 tables",
            "/timelines/shop.t000007": "and 9,899 more",
        }.items():
            text = asked(running.port, path).text
            assert expected in text, path
            assert len(text) < TEXT_MAX, path
