"""The pages of events, of dead letters and of the log."""

from __future__ import annotations

from pathlib import Path

import pytest
import structlog

from daemon.consumer.shared.window import SharedEvent
from daemon.http.access import Access, Gate
from daemon.http.tokens import Client, Role, TokenFile, Tokens
from daemon.process.logs import LogSettings, configure_logs
from daemon.process.recent_logs import CHARACTERS_MAX, LINES_MAX, RECENT_LOGS, RecentLogs
from daemon.service.event_pages import event_pages
from daemon.service.log_page import log_page
from daemon.sources.shared_readers import SharedReaders
from handlers.routing import Route
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.http_client import asked, served
from tests.builders.replication.replay_events import created


SOURCE: dict[str, object] = {"sources": {"lake": {"metastore": ["thrift://nowhere:9083"], "topic": "events"}}}
OPERATOR = "o" * 32
VIEWER = "v" * 32


@pytest.fixture
def access(tmp_path: Path) -> Access:
    files = []
    for name, role, token in (("ada", Role.OPERATE, OPERATOR), ("eve", Role.VIEW, VIEWER)):
        (tmp_path / name).write_text(token)
        files.append(TokenFile(Client(name, role), tmp_path / name))
    return Access(tokens=Tokens(files), allows_anonymous=False)


def test_the_log_is_kept_masked_bounded_and_shown_to_operators_only(access: Access) -> None:
    configure_logs(LogSettings("info", "json", 0, ("s3cret",)))
    structlog.get_logger("test").warning("cannot read", table="shop.orders", password="s3cret")  # noqa: S106
    line = RECENT_LOGS.lines()[0]
    assert (line.level, line.text) == ("warning", "cannot read")
    assert "s3cret" not in str(line)
    with served(Gate(app_of(log_page()), access, lambda _: None)) as server:
        shown = asked(server.port, "/logs?filter=shop.orders", token=OPERATOR)
        refused = asked(server.port, "/logs", token=VIEWER)
    assert "cannot read" in shown.text
    assert "table=shop.orders" in shown.text
    assert (refused.status, "cannot read" in refused.text) == (403, False)


def test_memory_of_the_log_is_bounded() -> None:
    logs = RecentLogs()
    for number in range(LINES_MAX * 2):
        logs(None, "", {"event": f"{number} " + "x" * 10 * CHARACTERS_MAX})
    assert len(logs.lines()) == LINES_MAX
    assert logs.lines()[0].text.startswith(f"{LINES_MAX * 2 - 1} ")
    assert max(len(line.text) for line in logs.lines()) < CHARACTERS_MAX + 10


@pytest.mark.parametrize(
    ("query", "status"), [("", 200), ("?table=shop", 200), ("?txn=x", 400), ("?source=none", 404)]
)
def test_events_answer_without_a_reader_and_refuse_what_they_cannot_find(query: str, status: int) -> None:
    config = config_of(SOURCE)
    with served(app_of(*event_pages(config, SharedReaders(config)))) as server:
        answer = asked(server.port, f"/events{query}")
    assert answer.status == status
    assert ("No events are in memory" in answer.text) == (status == 200)


def test_events_of_a_source_that_has_some_are_shown_first(monkeypatch: pytest.MonkeyPatch) -> None:
    lake: dict[str, object] = {"metastore": ["thrift://nowhere:9083"], "topic": "lake"}
    config = config_of({"sources": {"lake": lake, "pond": {**lake, "topic": "pond"}}})
    readers = SharedReaders(config)
    monkeypatch.setattr(readers.of("pond"), "recent", lambda: [SharedEvent(created(7), 1, Route(None))])
    with served(app_of(*event_pages(config, readers))) as server:
        answer = asked(server.port, "/events")
    assert "<option selected>pond" in answer.text


def test_dead_letters_are_shown_to_operators_only(access: Access) -> None:
    config = config_of(SOURCE)
    pages = event_pages(config, SharedReaders(config))
    with served(Gate(app_of(*pages), access, lambda _: None)) as server:
        refused = asked(server.port, "/events/dead-letters", token=VIEWER)
        shown = asked(server.port, "/events/dead-letters", token=OPERATOR)
    assert refused.status == 403
    assert "No dead letters." in shown.text
