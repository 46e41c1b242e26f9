"""``tideline dlq`` and the API list, show and replay dead letters of a broker in this process."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
import yaml
from click.testing import CliRunner
from pydantic import TypeAdapter

from daemon.http.actions import Audit
from daemon.kafka import dead_letters
from daemon.kafka.broker import TopicRecord
from daemon.kafka.commands import VALUE_CHARACTERS_MAX
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from daemon.service.command_line import tideline
from daemon.service.dead_letter_routes import LetterList, dead_letter_routes
from state.errors import MalformedEvent
from tests.builders.daemon.assembly import config_of
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.http_client import OPERATOR, acted, asked, operated
from tests.builders.kafka.mock_broker import mock_broker


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from click.testing import Result


class ExistingTopic:
    """The administration of a topic, which the broker in this process does not know."""

    def __init__(self, *_: object) -> None: ...

    def ensure(self) -> None: ...


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(dead_letters, "Topic", ExistingTopic)
    path = tmp_path / "tideline.yaml"
    with mock_broker() as broker:
        path.write_text(f"kafka: {{bootstrap: '{broker.bootstrap}', dead_letter_topic: dead}}\n")
        settings = dead_letter_topic("dead", message_bytes_max=100_000)
        with closing(DeadLetterWriter(broker, settings, origin="t", reader="replica.a")) as writer:
            writer.put(TopicRecord(7, b"[\x1b[2J]"), MalformedEvent("not an object"), 12)
            writer.put(TopicRecord(8, b"x" * 5_000), MalformedEvent("no \x07 JSON"), None)
        yield path


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(tideline, ["dlq", *arguments, "-c", str(config)])


def test_letters_are_listed_with_their_reasons_and_without_control_characters(config: Path) -> None:
    heading, first, second = run(config, "list").output.splitlines()
    assert heading.split()[:4] == ["NUMBER", "TIME", "TOPIC", "OFFSET"]
    assert "not an object" in first
    assert "\\x07" in second
    rows = json.loads(run(config, "list", "--json").output)
    assert [(row["number"], row["offset"], row["event"]) for row in rows] == [(0, "7", "12"), (1, "8", "-")]


def test_a_letter_is_shown_with_the_beginning_of_its_value(config: Path) -> None:
    assert run(config, "show", "0").output.endswith("\n[\\x1b[2J]\n")
    assert run(config, "show", "1").output.endswith("x" * VALUE_CHARACTERS_MAX + "… (5000 characters)\n")
    assert json.loads(run(config, "show", "1", "--json").output)["value"] == "x" * 5_000


def test_a_letter_that_still_cannot_be_decoded_ends_the_command_with_an_error(config: Path) -> None:
    replayed = run(config, "replay", "0")
    assert replayed.exit_code == 1
    assert replayed.output.startswith("0: unreadable: ")
    assert json.loads(run(config, "replay", "0", "--json").output)["outcome"] == "unreadable"


def test_an_empty_topic_and_a_missing_broker_are_reported(config: Path, tmp_path: Path) -> None:
    with mock_broker() as other:
        config.write_text(f"kafka: {{bootstrap: '{other.bootstrap}', dead_letter_topic: none}}\n")
        assert run(config, "list").output == "there are no dead letters\n"
    without = tmp_path / "without.yaml"
    without.write_text("{}\n")
    refused = run(without, "list")
    assert refused.exit_code != 0
    assert "kafka.bootstrap" in str(refused.exception) + refused.output


def test_the_api_lists_the_last_letters_without_their_contents_and_decodes_one_again(
    config: Path, tmp_path: Path
) -> None:
    audit = Audit()
    routes = dead_letter_routes(config_of(yaml.safe_load(config.read_text())), audit)
    with operated(tmp_path, *routes) as server:
        assert asked(server.port, "/api/v1/dead-letters").status == 403
        body = asked(server.port, "/api/v1/dead-letters", token=OPERATOR).text
        replayed = acted(server.port, "/api/v1/dead-letters/0/replay")
        refused = [acted(server.port, f"/api/v1/dead-letters/{name}/replay")[0] for name in ("2", "-1", "x")]
    check_form(TypeAdapter(LetterList), body)
    letters = json.loads(body)["letters"]
    assert [(each["number"], each["offset"], each["event_id"]) for each in letters] == [
        (1, 8, None),
        (0, 7, 12),
    ]
    assert "[2J" not in body
    assert (replayed[0], replayed[1]["outcome"]) == (200, "unreadable")
    assert refused == [404, 404, 404]
    assert [each["code"] for each in audit.answer()["actions"]] == [*["not-found"] * 3, None]
