"""What people see of a flat table: from the key log to JSON and HTML, with keys that nobody should trust."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from axe_playwright_python.sync_playwright import Axe
from pydantic import TypeAdapter

from daemon.config.model import Config
from daemon.flat.answers import FlatAnswers
from daemon.flat.page import FlatList, FlatTable, KeyList, RuleList, flat_page, flat_routes
from daemon.flat.status import FlatStatus
from daemon.http.access import Access, Gate
from daemon.http.actions import Audit
from daemon.http.tokens import Tokens
from daemon.http.transport.server import HttpServer
from daemon.keylog.routes import LogRows, key_log_routes
from daemon.service.command_line import call
from state.columns.paths import KeyPath
from streaming.keylog.key_rules import KeyRule, RuleKind, read_rules, set_rule
from streaming.keylog.log import KeyLog
from streaming.keylog.records import KeyRequest
from streaming.keylog.table_snapshots import ColumnChange, TableSnapshot, save_snapshot
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import acted, served
from tests.builders.daemon.http_client import asked as asked_over_http
from tests.builders.daemon.loops import daemon_status
from tests.builders.keylog.key_logs import FLAT, RAW, key_request


HOSTILE = KeyPath(("<script>alert('x')</script>", 'a"b&c\x00\n', "${body}"))
VOID = {"meta", "br", "link", "input"}
HOUR = 1_460_000_000 // 3_600 * 3_600


class Checker(HTMLParser):
    """Fails for a tag that is not closed in its order; collects texts."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.widths: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "script":
            assert (dict(attrs)["src"] or "").startswith("/static/")
        self.widths += [
            value
            for name, value in attrs
            if (tag, name) == ("rect", "width") and value and value not in {"100", "8"}
        ]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    checker.close()
    assert checker.open == []
    return checker


def column(index: int, key: KeyPath | None, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "index": index,
        "name": f"c{index}",
        "key": None if key is None else key.text,
        "type": "string",
        "state": "live" if key else "reserved",
        "first_seen_hour": HOUR,
        "last_seen_hour": HOUR + 3_600,
        "fill": 0.421,
        "misfits": 0,
        "former": None,
    }
    return told | changes


def document(**changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "columns": [
            column(0, None),
            column(1, HOSTILE),
            column(2, KeyPath(("gone",)), state="empty", fill=None, former="<b>old"),
        ],
        "partitions": 3,
        "sealed": 2,
        "hours": [HOUR, HOUR + 7_200],
        "calendar": {"2016-04-05": "-" * 23 + "s", "2016-04-07": "s" * 20 + "o-lo"},
        "rows": 1_234_567,
        "raw_bytes": 9_000,
        "sealed_raw_bytes": 8_000,
        "flat_bytes": 1_000,
        "keys": [],
        "waiting": [{"key": "$.waits", "kind": "wait", "reason": "tinyint so far, after <3 values"}],
    }
    return told | changes


@pytest.fixture
def log(tmp_path: Path) -> Iterator[KeyLog]:
    opened = KeyLog.open(f"sqlite:///{tmp_path}/state/keylog.db")
    yield opened
    opened.close()


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return config_of(
        {
            "flat": {"events": {"table": FLAT, "raw_table": RAW}},
            "state": {"dir": str(tmp_path / "state")},
        }
    )


@pytest.fixture
def flats() -> list[FlatStatus]:
    return [
        FlatStatus(
            "events", FLAT, "backing-off", batch=12, lag_records=7, problem="<i>killed", reported_s=1.0
        )
    ]


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(())


@pytest.fixture
def server(config: Config, flats: list[FlatStatus], tmp_path: Path, tokens: Tokens) -> Iterator[HttpServer]:
    answers = FlatAnswers(config, lambda: flats)
    status = daemon_status(sections={"flats": tuple(flats)})
    keys = key_log_routes(answers.keyed_table, answers.open_log, Audit())
    site = app_of(*flat_routes(answers), *keys, status=lambda: status)
    app = Gate(site, Access(tokens=tokens), lambda _: None)
    with served(app, tmp_path) as running:
        yield running
    answers.close()


def asked(log: KeyLog, *asks: KeyRequest) -> None:
    """Record questions of just now."""
    log.record([replace(each, at_s=int(time.time())) for each in asks], source="hive", position=None)


def get(server: HttpServer, path: str, token: str | None = None) -> tuple[int, str]:
    answer = asked_over_http(server.port, path, token=token)
    return answer.status, answer.text


def told(log: KeyLog, **changes: Any) -> None:
    history = [ColumnChange(7, 0, 1_460_000_000, "append", 1, HOSTILE.text, "wanted & <seen>")]
    save_snapshot(log, TableSnapshot(FLAT, 7, 1_460_000_000, document(**changes)), history)


def test_the_page_says_how_many_rows_hold_more_than_one_document(log: KeyLog, server: HttpServer) -> None:
    told(log)
    assert "after their first document" not in get(server, "/flat/events")[1]
    told(log, trailing=1_999)
    assert "1,999 rows or more arrived with text after their first document" in get(server, "/flat/events")[1]


def test_the_page_shows_the_table_as_the_driver_last_told_and_escapes_every_text(
    log: KeyLog, server: HttpServer
) -> None:
    told(log)
    asked(log, key_request("waits", user="<u>ann"))
    for name in ("events", quote(FLAT), FLAT.upper()):
        code, html = get(server, f"/flat/{name}")
        assert code == 200
    page = checked(html)
    shown = "".join(page.texts)
    assert "<script>alert('x')</script>" in shown
    assert "\x00" not in html
    assert "was <b>old" in shown
    assert "wanted & <seen>" in shown
    assert "tinyint so far, after <3 values" in shown
    assert "<i>killed" in shown
    assert "1,234,567" in shown
    assert "3 from 2016-04-07 03h to 2016-04-07 05h, 2 sealed" in shown
    assert "7.8 KiB of JSON are stored in 1000 B" in shown
    assert page.widths == ["42.1", "42.1"]


def test_the_page_shows_the_hours_as_a_calendar_and_as_a_table(log: KeyLog, server: HttpServer) -> None:
    told(log)
    html = get(server, "/flat/events")[1]
    assert "21 sealed, 2 open, 1 open with late rows, 1 without rows" in "".join(checked(html).texts)
    assert '<path class="late" d="M18 198h8v8h-8z"/>' in html
    assert "<td>2016-04-07</td><td>0-19</td><td>20, 23</td><td>22</td><td>21</td>" in html


def test_a_snapshot_of_an_earlier_driver_has_no_calendar(log: KeyLog, server: HttpServer) -> None:
    told(log, calendar=None)
    code, html = get(server, "/flat/events")
    assert (code, "calendar" in html) == (200, False)


def test_the_page_says_how_old_it_is_while_the_driver_is_down(log: KeyLog, server: HttpServer) -> None:
    told(log)
    _, html = get(server, "/flat/events")
    shown = "".join(checked(html).texts)
    assert "2016-04-07 03:33:20 UTC" in shown
    assert "backing-off, batch 12, 7 records behind" in shown


def test_a_table_that_no_driver_has_told_of_has_a_page_too(server: HttpServer) -> None:
    code, html = get(server, "/flat/events")
    assert code == 200
    assert "no driver has written a snapshot" in "".join(checked(html).texts)


def test_a_table_without_a_sealed_hour_saves_nothing_that_is_known(log: KeyLog, server: HttpServer) -> None:
    told(log, sealed_raw_bytes=0, flat_bytes=0)
    _, html = get(server, "/flat/events")
    assert "is known once the first hour is sealed" in "".join(checked(html).texts)


def test_a_name_that_is_no_table_is_not_found_and_not_echoed_as_markup(server: HttpServer) -> None:
    code, html = get(server, "/flat/%3Cscript%3E")
    assert code == 404
    checked(html)
    assert get(server, "/api/v1/flat/none")[0] == 404


def test_the_answers_have_the_forms_that_the_api_describes(log: KeyLog, server: HttpServer) -> None:
    check_form(TypeAdapter(FlatTable), get(server, "/api/v1/flat/events")[1])
    told(log)
    check_form(TypeAdapter(FlatTable), get(server, "/api/v1/flat/events")[1])
    check_form(TypeAdapter(FlatList), get(server, "/api/v1/flat")[1])
    asked(log, key_request("waits", user="ann"))
    set_rule(log, KeyRule(FLAT, RuleKind.SKIP, "$.debug.*", None, set_by="ann"))
    check_form(TypeAdapter(KeyList), keys := get(server, "/api/v1/flat/events/keys")[1])
    check_form(TypeAdapter(RuleList), rules := get(server, "/api/v1/flat/events/rules")[1])
    assert "waits" in keys
    assert "$.debug.*" in rules
    assert "ann" not in keys + rules
    assert get(server, "/api/v1/flat/none/keys")[0] == 404


def test_the_commands_list_keys_and_decisions_of_a_daemon_elsewhere(
    log: KeyLog, server: HttpServer, capsys: pytest.CaptureFixture[str]
) -> None:
    told(log)
    asked(log, key_request("waits", user="ann"))
    set_rule(log, KeyRule(FLAT, RuleKind.SKIP, "$.debug.*", None, set_by="ann"))
    where = ["--url", f"http://{server.address}"]
    assert call(["keys", "list", "events", "--why", *where]) == 0
    assert "$.waits" in capsys.readouterr().out
    assert call(["keys", "rules", FLAT, *where]) == 0
    assert "$.debug.*" in capsys.readouterr().out


@pytest.fixture
def operator(server: HttpServer, tokens: Tokens, tmp_path: Path) -> list[str]:
    """The options of a command elsewhere."""
    (tmp_path / "token").write_text(tokens.add_own("ada"))
    return ["--url", f"http://{server.address}", "--token-file", str(tmp_path / "token")]


def test_decisions_are_made_on_a_daemon_elsewhere_in_the_name_of_its_client(
    log: KeyLog, operator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["keys", "whitelist", "events", "a.b", *operator]) == 0
    assert "events: always $.a.b is stored" in capsys.readouterr().out.replace(FLAT, "events")
    assert call(["keys", "skip", FLAT, "$.debug.*", *operator]) == 0
    assert call(["keys", "pin", "events", "$.n", "bigint", *operator]) == 0
    stored = {(rule.kind, rule.text, rule.set_by) for rule in read_rules(log, FLAT)}
    assert stored == {
        (RuleKind.ALWAYS, "$.a.b", "ada"),
        (RuleKind.SKIP, "$.debug.*", "ada"),
        (RuleKind.PIN, "$.n", "ada"),
    }
    assert call(["keys", "unpin", "events", "n", *operator]) == 0
    assert call(["keys", "skip", "events", "$.debug.*", "--remove", *operator]) == 0
    assert [rule.kind for rule in read_rules(log, FLAT)] == [RuleKind.ALWAYS]
    capsys.readouterr()
    assert call(["keys", "whitelist", "events", "$.a[0]", *operator]) == 1
    assert call(["keys", "whitelist", "none", "a", *operator]) == 1
    assert "unknown flat table" in capsys.readouterr().err
    assert call(["keys", "whitelist", "events", "a", *operator[:2]]) == 1
    assert "Error [unauthenticated]" in capsys.readouterr().err


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "pin", "key": "a"},
        {"kind": "always", "key": "a", "type": "int"},
        {"kind": "pin", "key": "a", "type": "int", "remove": True},
        {"kind": "never", "key": "a"},
        {"kind": "skip", "key": ""},
        {"kind": "always", "key": "$.a[0]"},
    ],
)
def test_a_decision_that_contradicts_itself_is_refused(
    log: KeyLog, server: HttpServer, tokens: Tokens, body: dict[str, Any]
) -> None:
    status, _ = acted(server.port, "/api/v1/flat/events/decide", body, tokens.add_own("ada"))
    assert (status, list(read_rules(log, FLAT))) == (400, [])


def test_the_log_of_a_daemon_elsewhere_is_shown_to_operators(
    log: KeyLog, server: HttpServer, tokens: Tokens, operator: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    asked(log, key_request("gone", user="bob"), key_request("x", user="zoe"))
    assert call(["keys", "log", "--user", "bob", "--key", "gone", *operator]) == 0
    shown = capsys.readouterr().out
    assert ("$.gone" in shown, "zoe" in shown) == (True, False)
    assert get(server, "/api/v1/key-log")[0] == 401
    token = tokens.add_own("ada")
    rows = get(server, "/api/v1/key-log?limit=1", token)[1]
    check_form(TypeAdapter(LogRows), rows)
    assert len(json.loads(rows)["entries"]) == 1
    for query in ("days=0", "limit=x", "limit=1001", "key=a[", "other=1"):
        assert get(server, f"/api/v1/key-log?{query}", token)[0] == 400, query


def test_names_of_users_are_shown_to_operators_only(log: KeyLog, server: HttpServer, tokens: Tokens) -> None:
    told(log)
    asked(
        log,
        key_request("gone", user="bob.b"),
        key_request("gone", user="eve.e"),
        key_request("x", user="bob.b"),
    )
    operator = tokens.add_own("operator")
    for path in ("/flat/events", "/api/v1/flat/events"):
        shown = get(server, path, operator)[1]
        hidden = get(server, path)[1]
        assert ("bob.b" in shown, "eve.e" in shown) == (True, True)
        assert ("bob.b" in hidden, "eve.e" in hidden) == (False, False)
    answer = json.loads(hidden)
    first, second = answer["columns"][2]["users"]
    assert first != second
    assert {each["key"]: each["users"] for each in answer["candidates"]}["$.x"][0] in {first, second}


def test_the_same_is_there_as_json(log: KeyLog, server: HttpServer, tokens: Tokens) -> None:
    told(log)
    asked(log, key_request("waits"), key_request("gone", user="bob"))
    answer = json.loads(get(server, "/api/v1/flat/events", tokens.add_own("operator"))[1])
    assert [each["index"] for each in answer["columns"]] == [0, 1, 2]
    assert answer["columns"][1]["key"] == HOSTILE.text
    assert answer["columns"][2]["users"] == ["bob"]
    assert answer["totals"]["saving"] == 0.875
    assert answer["driver"]["state"] == "backing-off"
    assert {each["key"]: each["verdict"] for each in answer["candidates"]}["$.waits"] == "waiting"
    assert answer["changes"][0]["reason"] == "wanted & <seen>"
    (listed,) = json.loads(get(server, "/api/v1/flat")[1])["flat"]
    assert (listed["table"], listed["columns"], listed["rows"]) == (FLAT, 1, 1_234_567)


def test_the_list_and_the_status_page_lead_to_the_tables(log: KeyLog, server: HttpServer) -> None:
    told(log)
    code, html = get(server, "/flat")
    assert code == 200
    assert 'href="/flat/events"' in html
    checked(html)
    assert 'href="/flat/events"' in get(server, "/")[1]


def test_pages_are_accessible_on_phones_and_as_files(log: KeyLog, server: HttpServer, tmp_path: Path) -> None:
    told(log)
    asked(log, key_request("waits", user="ann"))
    file = tmp_path / "page.html"
    file.write_text(flat_page(json.loads(get(server, "/api/v1/flat/events")[1])))
    site = f"http://127.0.0.1:{server.port}"
    with launched_browser() as browser:
        for address in (f"{site}/flat", f"{site}/flat/events", file.as_uri()):
            page = browser.new_page(viewport={"width": 390, "height": 900})
            page.goto(address)
            page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true })")
            assert page.evaluate("document.documentElement.scrollWidth") <= 390
            found = Axe().run(page)
            assert found.violations_count == 0, found.generate_report()


def test_a_database_that_is_away_is_no_server_error(config: Config) -> None:
    away = config_of(
        {
            "flat": {"events": {"table": FLAT, "raw_table": RAW}},
            "keylog": {"url": "postgresql://nobody@127.0.0.1:1/none"},
        }
    )
    with served(app_of(*flat_routes(FlatAnswers(away, tuple)))) as server:
        assert get(server, "/flat/events")[0] == 503
        assert get(server, "/livez")[0] == 200
