"""The API lists the last dead letters of a broker in this process, and decodes one again."""

from __future__ import annotations

import json
from contextlib import ExitStack
from typing import TYPE_CHECKING

import yaml
from pydantic import TypeAdapter

from daemon.dead_letters.routes import LetterList, ShownLetter, dead_letter_routes
from daemon.http.actions import Audit
from daemon.service.command_line import call
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import HOST, OPERATOR, acted, asked, operated
from tests.builders.kafka.stored_letters import stored_letters


if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_api_lists_the_last_letters_without_their_contents_and_decodes_one_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = Audit()
    with ExitStack() as stack:
        path = stack.enter_context(stored_letters(tmp_path, monkeypatch))
        routes = dead_letter_routes(config_of(yaml.safe_load(path.read_text())), audit)
        server = stack.enter_context(operated(tmp_path, *routes))
        assert asked(server.port, "/api/v1/dead-letters").status == 401
        body = asked(server.port, "/api/v1/dead-letters", token=OPERATOR).text
        assert asked(server.port, "/api/v1/dead-letters/0").status == 401
        letter = asked(server.port, "/api/v1/dead-letters/0", token=OPERATOR).text
        replayed = acted(server.port, "/api/v1/dead-letters/0/replay")
        refused = [acted(server.port, f"/api/v1/dead-letters/{name}/replay")[0] for name in ("2", "-1", "x")]
    check_form(TypeAdapter(LetterList), body)
    check_form(TypeAdapter(ShownLetter), letter)
    letters = json.loads(body)["letters"]
    assert [(each["number"], each["offset"], each["event_id"]) for each in letters] == [
        (1, 8, None),
        (0, 7, 12),
    ]
    assert "[2J" not in body
    assert (replayed[0], replayed[1]["outcome"]) == (200, "unreadable")
    assert refused == [404, 404, 404]
    assert [each["code"] for each in audit.answer()["actions"]] == [*["not-found"] * 3, None]


def test_the_commands_list_show_and_replay_letters_of_a_daemon_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        path = stack.enter_context(stored_letters(tmp_path, monkeypatch))
        routes = dead_letter_routes(config_of(yaml.safe_load(path.read_text())), Audit())
        server = stack.enter_context(operated(tmp_path, *routes))
        where = ["--url", f"http://{HOST}:{server.port}", "--token-file", str(tmp_path / "operator")]
        printed, shown = [], []
        for daemon in (["-c", str(path)], where):
            assert call(["dlq", "list", *daemon, "-o", "json"]) == 0
            printed.append(capsys.readouterr().out)
            assert call(["dlq", "replay", "0", *daemon]) == 1
            assert "0: unreadable: [malformed-event]" in capsys.readouterr().out
            assert call(["dlq", "show", "0", *daemon, "-o", "json"]) == 0
            shown.append(capsys.readouterr().out)
    here, there = printed
    assert here == there
    assert shown[0] == shown[1]
    assert json.loads(shown[0])["value"] == "[\x1b[2J]"
    assert '"path": "/api/v1/dead-letters/0/replay"' in here
