"""The live check reads the access rules of a real broker with its standard authorizer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported implicitly
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)

from daemon.sources.checks.topic_checks import check_topic
from tests.builders.components.authorizing_kafka import MECHANISM, PASSWORDS, AuthorizingKafka
from tests.builders.daemon.assembly import config_of


@pytest.fixture(scope="module")
def broker(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuthorizingKafka]:
    del kafka  # it makes sure that the jars are there
    process = AuthorizingKafka(tmp_path_factory.mktemp("kafka"))
    process.start()
    yield process
    process.stop()


def rule(
    user: str,
    operation: AclOperation,
    name: str,
    pattern: ResourcePatternType = ResourcePatternType.LITERAL,
    kind: ResourceType = ResourceType.TOPIC,
    permission: AclPermissionType = AclPermissionType.ALLOW,
) -> AclBinding:
    return AclBinding(kind, name, pattern, user, "*", operation, permission)


def found(broker: AuthorizingKafka) -> list[tuple[bool, str]]:
    options = {
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": str(broker.authority),
        "sasl.mechanism": MECHANISM,
        "sasl.username": "tideline",
    }
    kafka = {
        "bootstrap": broker.user_bootstrap,
        "options": options,
        "secrets": {"sasl.password": {"env": "TIDELINE_TEST_PASSWORD"}},
    }
    sources = {"lake": {"metastore": ["thrift://s:9083"], "topic": "lake.events"}}
    config = config_of({"kafka": kafka, "sources": sources})
    return [(each.warning, each.reason) for each in check_topic(config, config.sources["lake"])]


def test_writers_are_found_by_name_prefix_and_wildcard(
    broker: AuthorizingKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELINE_TEST_PASSWORD", PASSWORDS["tideline"])
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    settings = {"max.message.bytes": str(16 * 1024 * 1024), "compression.type": "zstd"}
    new = NewTopic("lake.events", 1, config=settings)
    admin.create_topics([new])["lake.events"].result(20)

    def add(*rules: AclBinding) -> None:
        for answer in admin.create_acls(list(rules)).values():
            answer.result(20)

    me = "User:tideline"
    add(rule(me, AclOperation.DESCRIBE_CONFIGS, "lake.events"), rule(me, AclOperation.READ, "lake.events"))
    (may_not, unknown) = found(broker)
    assert may_not == (False, "the relay's user may not write to the topic")
    assert "may not read the access rules" in unknown[1]
    add(
        rule(me, AclOperation.WRITE, "lake.events"),
        rule(me, AclOperation.DESCRIBE, "kafka-cluster", kind=ResourceType.BROKER),
    )
    assert found(broker) == []
    add(
        rule("User:etl", AclOperation.WRITE, "lake", ResourcePatternType.PREFIXED),
        rule("User:boss", AclOperation.ALL, "*"),
        rule("User:reader", AclOperation.READ, "lake.events"),
        rule("User:other", AclOperation.WRITE, "elsewhere"),
        rule("User:gone", AclOperation.WRITE, "lake.events"),
        rule("User:gone", AclOperation.WRITE, "lake.events", permission=AclPermissionType.DENY),
    )
    ((is_warning, reason),) = found(broker)
    assert is_warning
    assert reason.endswith("may write to the topic: User:boss, User:etl")
