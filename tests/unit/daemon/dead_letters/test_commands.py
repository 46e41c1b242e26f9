"""``tideline dlq`` lists, shows and replays dead letters of a broker in this process."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from daemon.dead_letters.commands import VALUE_CHARACTERS_MAX
from daemon.service.command_line import tideline
from tests.builders.kafka.mock_broker import mock_broker
from tests.builders.kafka.stored_letters import stored_letters


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with stored_letters(tmp_path, monkeypatch) as path:
        yield path


def run(config: Path, *arguments: str) -> Result:
    return CliRunner().invoke(tideline, ["dlq", *arguments, "-c", str(config)])


def test_letters_are_listed_with_their_reasons_and_without_control_characters(config: Path) -> None:
    heading, first, second = run(config, "list").output.splitlines()
    assert heading.split()[:4] == ["NUMBER", "TIME", "TOPIC", "OFFSET"]
    assert "not an object" in first
    assert "\\x07" in second
    rows = json.loads(run(config, "list", "--json").output)
    assert [(row["number"], row["offset"], row["event_id"]) for row in rows] == [(0, 7, 12), (1, 8, None)]


def test_a_letter_is_shown_with_the_beginning_of_its_value(config: Path) -> None:
    assert run(config, "show", "0").output.endswith("\n[\\x1b[2J]\n")
    assert run(config, "show", "1").output.endswith("x" * VALUE_CHARACTERS_MAX + "… (5000 characters)\n")
    assert run(config, "show", "1", "-o", "wide").output.endswith("x" * 5000 + "\n")
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


def test_another_word_than_a_number_is_refused_in_plain_words(config: Path) -> None:
    assert "abc must be a whole number." in run(config, "show", "abc").output
