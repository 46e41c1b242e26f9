"""A reader over a topic made of lists."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.consumer import topic_reader as reading_module
from daemon.consumer.settings import ConsumerSettings
from daemon.consumer.topic_reader import TopicReader
from daemon.kafka.broker import BrokerSettings
from tests.builders.kafka.fake_topics import ListedFetcher, ListedLetters, ListedSeeker, ListedTopic


ReaderOf = Callable[..., TopicReader]


@pytest.fixture
def letters() -> ListedLetters:
    return ListedLetters()


@pytest.fixture
def reader_of(monkeypatch: pytest.MonkeyPatch, letters: ListedLetters) -> ReaderOf:
    def reader(
        topic: ListedTopic, *, filler: Any = None, offsets_are_ids: bool = False, **settings: Any
    ) -> TopicReader:
        monkeypatch.setattr(
            reading_module,
            "Seeker",
            lambda _b, _t, _f, signatures: ListedSeeker(
                topic, offsets_are_ids=offsets_are_ids, signatures=signatures
            ),
        )
        monkeypatch.setattr(
            reading_module, "Fetcher", lambda _b, _t, offset, _s: ListedFetcher(topic, offset)
        )
        named: Any = SimpleNamespace(name="topic")
        return TopicReader(
            BrokerSettings("nowhere:1"),
            named,
            ConsumerSettings(**{"group": "g", "format": "auto"} | settings),
            letters,
            filler,
        )

    return reader
