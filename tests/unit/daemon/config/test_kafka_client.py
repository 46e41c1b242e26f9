"""Kerberos at the brokers, with a Kafka client that was built without it, as pip installs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from daemon.config import crosscheck, kafka_client
from daemon.kafka import broker
from daemon.kafka.broker import BrokerSettings
from daemon.kafka.dead_letter_reader import DeadLetterReader
from daemon.service.configuration import config_reader
from state.errors import ConfigError


KERBEROS = {"security.protocol": "SASL_SSL", "sasl.mechanism": "GSSAPI"}


@pytest.fixture(params=[False, True], ids=["without", "with"])
def has_it(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    for module in (crosscheck, broker):
        monkeypatch.setattr(module, "has_kerberos", lambda: request.param)
    return bool(request.param)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, False),
        ({"security.protocol": "SSL"}, False),
        ({"security.protocol": "sasl_plaintext"}, True),  # the library's default
        (KERBEROS, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanisms": "GSSAPI"}, True),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "SCRAM-SHA-512"}, False),
    ],
)
def test_kerberos_is_needed_where_the_library_uses_it(options: dict[str, Any], expected: bool) -> None:  # noqa: FBT001 - pytest's
    assert kafka_client.needs_kerberos(options) is expected


def test_the_library_itself_says_whether_it_can() -> None:
    from confluent_kafka import KafkaException, Producer

    if kafka_client.has_kerberos():
        return
    with pytest.raises(KafkaException, match="GSSAPI"):
        Producer(KERBEROS)


def test_config_check_warns_if_the_client_cannot(tmp_path: Path, has_it: bool) -> None:  # noqa: FBT001 - pytest's
    path = tmp_path / "tideline.yaml"
    path.write_text(
        f"state: {{dir: {tmp_path}}}\n"
        "kafka: {bootstrap: 'k:9092', options: {security.protocol: SASL_SSL}}\n"
    )
    found = [each for each in config_reader().read(path, {}).problems if each.key == "kafka.options"]
    assert [each.warning for each in found] == ([] if has_it else [True])
    assert all("but the installed Kafka client was built without it" in each.reason for each in found)


def test_commands_report_it_as_a_matter_of_configuration(has_it: bool) -> None:  # noqa: FBT001 - pytest's
    if has_it:
        assert BrokerSettings("k:9092", KERBEROS).librdkafka()["sasl.mechanism"] == "GSSAPI"
        return
    with pytest.raises(ConfigError, match="Kerberos") as refused:
        DeadLetterReader(BrokerSettings("k:9092", KERBEROS), "dead-letters")
    assert "dev.kafka_client" in str(refused.value.hint)
