"""``Topic.ensure`` while brokers do not all know a new topic yet."""

from __future__ import annotations

import gc
from concurrent.futures import Future
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from weakref import WeakValueDictionary, ref

import pytest
from confluent_kafka import KafkaError, KafkaException

from daemon.kafka import topic as module
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.topic import Topic, TopicSettings
from state.errors import ConfigError, KafkaUnavailable, NotFound


SETTINGS = TopicSettings("events", message_bytes_max=1_000)


@dataclass
class Admin:
    """Answers like brokers that learn of a topic late: each request fails ``unknown`` times first."""

    exists: bool = True
    partitions: int = 1
    unknown: dict[str, int] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def create_topics(self, *_: object, **_options: object) -> dict[str, Future[Any]]:
        error = KafkaError(KafkaError.TOPIC_ALREADY_EXISTS) if self.exists else None
        return self._answer("create", None, error)

    def describe_topics(self, *_: object, **_options: object) -> dict[str, Future[Any]]:
        known = self.exists or "create" in self.asked
        error = None if known else KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        return self._answer("describe", SimpleNamespace(partitions=[0] * self.partitions), error)

    def describe_configs(self, *_: object, **_options: object) -> dict[str, Future[Any]]:
        values = {"max.message.bytes": "1000", "cleanup.policy": "delete"}
        return self._answer("config", {name: SimpleNamespace(value=value) for name, value in values.items()})

    def list_offsets(self, *_: object, **_options: object) -> dict[str, Future[Any]]:
        return self._answer("offsets", SimpleNamespace(offset=0))

    def _answer(self, request: str, value: object, error: KafkaError | None = None) -> dict[str, Future[Any]]:
        self.asked.append(request)
        left = self.unknown.get(request, 0)
        if left:
            self.unknown[request] = left - 1
            error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
        future: Future[Any] = Future()
        if error is None:
            future.set_result(value)
        else:
            future.set_exception(KafkaException(error))
        return {"events": future}


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> Topic:
    monkeypatch.setattr(module, "AdminClient", lambda *_, **__: admin)
    monkeypatch.setattr(module, "_ADMINS", WeakValueDictionary())  # those of real clients, and of other tests
    return Topic(BrokerSettings("nowhere:9092", timeout_s=30.0), SETTINGS)


@pytest.fixture
def admin() -> Admin:
    return Admin()


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("request_name", ["describe", "offsets"])
def test_a_topic_that_some_brokers_do_not_know_yet_is_waited_for(
    topic: Topic, admin: Admin, request_name: str, exists: bool
) -> None:
    admin.exists, admin.unknown = exists, {request_name: 3}
    assert topic.ensure() is not exists
    assert admin.asked.count(request_name) > 3


def test_an_existing_topic_is_not_created_because_a_user_may_lack_the_right_to(
    topic: Topic, admin: Admin
) -> None:
    assert not topic.ensure()
    assert "create" not in admin.asked


def test_a_topic_that_another_process_created_is_verified_when_its_configuration_is_known(
    topic: Topic, admin: Admin
) -> None:
    admin.unknown = {"config": 2}
    assert not topic.ensure()


def test_a_topic_with_two_partitions_is_refused_even_if_it_was_created_a_moment_ago(
    topic: Topic, admin: Admin
) -> None:
    admin.partitions, admin.unknown = 2, {"describe": 2, "offsets": 2}
    with pytest.raises(ConfigError):
        topic.ensure()


def test_a_topic_that_stays_unknown_is_unavailable_after_the_timeout(topic: Topic, admin: Admin) -> None:
    topic._broker = BrokerSettings("nowhere:9092", timeout_s=0.1)
    admin.unknown = {"describe": 1_000_000}
    with pytest.raises(KafkaUnavailable, match="not every broker"):
        topic.ensure()


def test_a_reader_does_not_wait_for_a_topic_that_does_not_exist(topic: Topic, admin: Admin) -> None:
    admin.unknown = {"describe": 1}
    with pytest.raises(NotFound):
        topic.verify_order()
    assert admin.asked == ["describe"]


NOWHERE = "127.0.0.1:9"


def unanswered(name: str, **client: str) -> Topic:
    return Topic(BrokerSettings(NOWHERE, client=client), TopicSettings(name))


def test_topics_of_the_same_settings_share_a_client_as_long_as_one_of_them_exists() -> None:
    first, second = unanswered("a"), unanswered("b")
    assert first._admin is second._admin
    assert unanswered("a", **{"socket.keepalive.enable": "true"})._admin is not first._admin
    client = ref(first._admin)
    del first
    gc.collect()
    assert client() is second._admin
    del second
    gc.collect()
    assert client() is None
