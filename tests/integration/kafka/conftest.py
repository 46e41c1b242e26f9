"""Separate topics on the shared broker, and separate brokers for tests that stop one."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack.servers.kafka import Kafka
from tests.builders.kafka.relay_and_readers import Stream


StreamOf = Callable[..., Stream]


@pytest.fixture
def stream_of(kafka: str) -> StreamOf:
    """Create streams with a topic of their own."""

    def stream(**settings: Any) -> Stream:
        return Stream(kafka, f"kafka_{uuid.uuid4().hex[:12]}", **settings)

    return stream


@pytest.fixture
def own_broker(kafka: str, tmp_path: Path) -> Iterator[Kafka]:
    """A broker that may be stopped and killed."""
    broker = Kafka(tmp_path / "kafka")
    broker.start()
    yield broker
    broker.stop()
