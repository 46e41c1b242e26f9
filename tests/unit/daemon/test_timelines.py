"""Answers about timelines: as values, over HTTP, by the client and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from daemon.status.client import fetch
from daemon.timelines.answers import CoverQuestion, Known, TimelineAnswers, TimelineView
from daemon.timelines.client import RemoteTimelines
from daemon.timelines.routes import timeline_routes
from daemon.timelines.text import check_text, cover_text, latest_text, listing_text, show_text
from state.errors import BadInput, LimitExceeded, MalformedEvent, NotFound, Transient, Uncoverable
from state.store.memory import MemoryStore
from state.timelines.tables.facts import Fact, StorageTable
from state.timelines.tables.projection import Timelines
from state.timelines.tables.settings import TableSettings
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.http_client import served
from tests.builders.daemon.loops import daemon_status


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from daemon.http.server import HttpServer


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
def known() -> Known:
    held = timelines(
        {
            DAYS: (["dt"], [["2015-01-01"], ["2015-01-02"], ["2015-01-05"]]),
            HOURS: (["dt"], [["2015-01-03-00"], ["2015-01-03-01"]]),
            TWO: (["dt", "pt"], [["2015-01-01", "2015-01"]]),
        }
    )
    return Known(held, 10, {"shop.new": "snapshot"}, {TWO: "[malformed-event] broken"})


@pytest.fixture
def answers(known: Known) -> TimelineAnswers:
    sales = Fact("sales", (StorageTable(DAYS), StorageTable(HOURS), StorageTable("shop.gone")))
    views = [
        TimelineView("lake", {"sales": sales}, lambda: known),
        TimelineView("pond", {}, lambda: Known(timelines({TWO: (["dt"], [])}), 3)),
        TimelineView("late", {}, lambda: None),
    ]
    return TimelineAnswers(views, {"lake": 12}.get)


@pytest.fixture
def server(answers: TimelineAnswers) -> Iterator[HttpServer]:
    status = daemon_status()
    with served(app_of(*timeline_routes(answers), status=lambda: status)) as running:
        yield running


@pytest.fixture
def remote(server: HttpServer) -> RemoteTimelines:
    return RemoteTimelines(f"http://127.0.0.1:{server.port}")


def question(name: str, start: str = "2015-01-01", end: str = "2015-01-04", **changes: Any) -> CoverQuestion:
    return CoverQuestion(name=name, start=start, end=end, **changes)


def test_every_answer_tells_the_event_it_reflects_and_where_the_source_is(answers: TimelineAnswers) -> None:
    for answer in (answers.show(DAYS), answers.latest(DAYS), answers.cover(question(DAYS))):
        assert (answer["event_id"], answer["current_event_id"]) == (10, 12)
        assert answer["states"] == {DAYS: "following"}
    listed = answers.listing()["sources"]
    assert (listed["lake"]["event_id"], listed["lake"]["current_event_id"]) == (10, 12)
    assert listed["lake"]["loading"] == 1
    assert listed["pond"]["current_event_id"] is None
    assert "late" not in listed, "its state is not open yet"


def test_a_fact_is_covered_from_all_its_tables_and_what_is_missing_is_told(answers: TimelineAnswers) -> None:
    answer = answers.cover(question("sales", where="in", alias="s"))
    assert [(run["table"], run["first"], run["last"]) for run in answer["runs"]] == [
        (DAYS, "2015-01-01", "2015-01-02"),
        (HOURS, "2015-01-03-00", "2015-01-03-01"),
    ]
    assert answer["missing"] == [{"period": "HOURLY", "range": "[2015-01-03-02, 2015-01-04-00)"}]
    assert answer["where"] == {
        DAYS: "(s.dt IN ('2015-01-01','2015-01-02'))",
        HOURS: "(s.dt IN ('2015-01-03-00','2015-01-03-01'))",
    }
    assert answers.latest("sales")["latest"] == {"dt": {"period": "DAILY", "value": "2015-01-05"}}
    with pytest.raises(Uncoverable):
        answers.cover(question("sales", strict=True))


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("or", "(dt = '2015-01-01') OR (dt = '2015-01-02')"),
        ("between", "(dt BETWEEN '2015-01-01' AND '2015-01-02')"),
    ],
)
def test_the_condition_is_written_as_asked(answers: TimelineAnswers, where: str, text: str) -> None:
    assert answers.cover(question(DAYS, where=where))["where"] == {DAYS: text}
    with pytest.raises(BadInput):
        answers.cover(question(DAYS, where="like"))


def test_a_condition_of_a_million_values_is_refused(
    monkeypatch: pytest.MonkeyPatch, answers: TimelineAnswers
) -> None:
    monkeypatch.setattr("daemon.timelines.answers.CONDITION_PARTITIONS_MAX", 1)
    with pytest.raises(LimitExceeded):
        answers.cover(question(DAYS, where="in"))
    assert answers.cover(question(DAYS, where="between"))["where"]


def test_a_quarantined_table_answers_and_says_so(answers: TimelineAnswers) -> None:
    shown = answers.show(TWO, source="lake")
    assert shown["states"] == {TWO: "quarantined"}
    assert shown["problems"] == {TWO: "[malformed-event] broken"}
    assert "shop.two is quarantined" in show_text(shown)


def test_what_is_not_clear_is_asked_back(answers: TimelineAnswers) -> None:
    with pytest.raises(BadInput, match="several sources"):
        answers.show(TWO)
    with pytest.raises(BadInput, match="several time columns"):
        answers.cover(question(TWO, source="lake"))
    with pytest.raises(NotFound, match="waits to be loaded"):
        answers.show("shop.new")
    with pytest.raises(NotFound, match="no timelines"):
        answers.show("shop.none")
    with pytest.raises(NotFound, match="no catalog follows"):
        answers.listing(source="sea")
    with pytest.raises(NotFound):
        TimelineAnswers([], lambda _: None).listing()


def test_a_client_gets_over_http_what_the_daemon_answers(
    answers: TimelineAnswers, remote: RemoteTimelines
) -> None:
    assert remote.listing(prefix="shop.d") == answers.listing(prefix="shop.d")
    assert remote.listing(limit=1)["total"] == 4
    assert remote.show(DAYS) == answers.show(DAYS)
    assert remote.latest("sales", column="dt") == answers.latest("sales", column="dt")
    asked = question("sales", where="or", periods=("DAILY", "HOURLY"), min_count=True)
    assert remote.cover(asked) == answers.cover(asked)
    with pytest.raises(Uncoverable) as caught:
        remote.cover(question("sales", strict=True))
    assert caught.value.context["missing"] == ["[2015-01-03-02, 2015-01-04-00)"]
    with pytest.raises(NotFound):
        remote.show("shop.none")


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
        f"/{DAYS}/latest?column={'x' * 600}",
    ],
)
def test_a_strange_question_is_answered_with_400(server: HttpServer, path: str) -> None:
    code, body = fetch(f"http://127.0.0.1:{server.port}", f"/api/v1/timelines{path}")
    assert code == 400, body
    assert b'"code":' in body


def test_a_daemon_without_a_catalog_and_no_daemon_at_all_are_told_apart() -> None:
    with served(app_of()) as running, pytest.raises(MalformedEvent, match="not a JSON object"):
        RemoteTimelines(f"http://127.0.0.1:{running.port}").listing()
    with pytest.raises(Transient):
        RemoteTimelines(f"http://127.0.0.1:{running.port}").listing()


def test_the_texts_say_what_the_values_say(answers: TimelineAnswers) -> None:
    shown = show_text(answers.show(DAYS))
    assert "2015-01-01 |██··█| 2015-01-05" in shown
    assert "missing 2015-01-03 to 2015-01-04" in shown
    listed = listing_text(answers.listing())
    assert "lake: 3 tables" in listed
    assert "1 tables loading" in listed
    assert "more tables" in listing_text(answers.listing(limit=1))
    covered = cover_text(answers.cover(question("sales", where="in")))
    assert "NOT complete, 4 partitions" in covered
    assert "missing HOURLY [2015-01-03-02, 2015-01-04-00)" in covered
    assert "2015-01-05  DAILY" in latest_text(answers.latest(DAYS))
    drift = {"column": "dt", "period": "DAILY", "missing": ["[a, b)"], "surplus": []}
    found = {"table": DAYS, "event_id": 1, "current_event_id": 2, "moving": True, "drift": [drift]}
    assert "missing [a, b)" in check_text(found)
    assert "as the source" in check_text(found | {"drift": []})
