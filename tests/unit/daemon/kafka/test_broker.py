"""Errors of librdkafka are translated: wait, change a setting, or reject the record."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException

from daemon.kafka.broker import BrokerSettings, translate_error, translate_errors
from state.errors import ConfigError, KafkaUnavailable, LimitExceeded, NotFound, Refused, TidelineError


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (KafkaError._ALL_BROKERS_DOWN, KafkaUnavailable),
        (KafkaError._MSG_TIMED_OUT, KafkaUnavailable),
        (KafkaError._FATAL, KafkaUnavailable),
        (KafkaError.NOT_ENOUGH_REPLICAS, KafkaUnavailable),
        (KafkaError.INVALID_REPLICATION_FACTOR, KafkaUnavailable),
        (KafkaError.UNKNOWN_TOPIC_OR_PART, NotFound),
        (KafkaError._UNKNOWN_PARTITION, NotFound),
        (KafkaError.MSG_SIZE_TOO_LARGE, LimitExceeded),
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaUnavailable),
        (KafkaError.SASL_AUTHENTICATION_FAILED, KafkaUnavailable),
        (KafkaError.INVALID_CONFIG, ConfigError),
        (KafkaError.TOPIC_ALREADY_EXISTS, Refused),
    ],
)
def test_every_kind_of_failure_has_its_class_of_error(code: int, kind: type[TidelineError]) -> None:
    error = translate_error(KafkaError(code), "read the topic", topic="t")
    assert type(error) is kind
    assert error.message in {"cannot read the topic", "no Kafka broker answers"}
    assert error.context["topic"] == "t"


@pytest.mark.parametrize(
    ("code", "message", "advice"),
    [
        (KafkaError._TIMED_OUT, "no Kafka broker answers", "that the broker runs"),
        (KafkaError._TRANSPORT, "no Kafka broker answers", "that the broker runs"),
        (KafkaError._RESOLVE, "no Kafka broker answers", "that the broker runs"),
        (KafkaError.NOT_ENOUGH_REPLICAS, "cannot create the topic", "Kafka answered"),
    ],
)
def test_a_broker_that_does_not_answer_says_nothing_about_the_topic(
    code: int, message: str, advice: str
) -> None:
    error = translate_error(KafkaError(code), "create the topic")
    assert error.message == message
    assert advice in str(error)


def test_exceptions_of_the_library_are_translated() -> None:
    with pytest.raises(KafkaUnavailable), translate_errors("write"):
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))


def test_settings_have_the_names_of_the_library_and_users_override_defaults() -> None:
    broker = BrokerSettings("a:1,b:2", client={"linger.ms": "9", "security.protocol": "ssl"})
    config = broker.librdkafka(linger_ms=5, group_id="g")
    assert config["bootstrap.servers"] == "a:1,b:2"
    assert config["linger.ms"] == "9"
    assert config["group.id"] == "g"
    assert config["security.protocol"] == "ssl"
