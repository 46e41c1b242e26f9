"""Two dead letters on a broker in this process."""

from __future__ import annotations

from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from daemon.kafka import dead_letters
from daemon.kafka.broker import TopicRecord
from daemon.kafka.dead_letters import DeadLetterWriter, dead_letter_topic
from state.errors import MalformedEvent
from tests.builders.kafka.mock_broker import mock_broker


if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest


class ExistingTopic:
    """The administration of a topic, which the broker in this process does not know."""

    def __init__(self, *_: object) -> None: ...

    def ensure(self) -> None: ...


@contextmanager
def stored_letters(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the configuration of a daemon with two dead letters; one has its event id."""
    monkeypatch.setattr(dead_letters, "Topic", ExistingTopic)
    path = directory / "tideline.yaml"
    with mock_broker() as broker:
        path.write_text(f"kafka: {{bootstrap: '{broker.bootstrap}', dead_letter_topic: dead}}\n")
        settings = dead_letter_topic("dead", message_bytes_max=100_000)
        with closing(DeadLetterWriter(broker, settings, origin="t", reader="replica.a")) as writer:
            writer.put(TopicRecord(7, b"[\x1b[2J]"), MalformedEvent("not an object"), 12)
            writer.put(TopicRecord(8, b"x" * 5_000), MalformedEvent("no \x07 JSON"), None)
        yield path
