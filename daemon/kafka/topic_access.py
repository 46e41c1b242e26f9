"""Reads from the broker's access rules who may write to a topic.

A writer of a source's topic controls its readers, so ``tideline config check --live`` reports every writer
besides the relay.
Brokers do not reveal super users, nor whether they have an authorizer at all: without one they accept every
client, and list no rules.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # re-exported implicitly
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)

from daemon.kafka.broker import LIBRARY_LOG, BrokerSettings, translate_errors


EVERYONE: Final = "User:*"
_WRITING: Final = frozenset({AclOperation.WRITE, AclOperation.ALL})


@dataclass(frozen=True, slots=True)
class TopicAccess:
    """The access rules that apply to a topic."""

    has_rules: bool
    """Whether any rule applies to the topic. If not, the broker may have no authorizer."""
    writers: frozenset[str] = frozenset()
    """Principals that a rule allows to write, unless another rule denies it from every host."""


def read_access(broker: BrokerSettings, topic: str) -> TopicAccess | None:
    """Return the rules of a topic; None if this user may not read them. Raises KafkaUnavailable."""
    admin = AdminClient(broker.librdkafka(), logger=LIBRARY_LOG)
    asked = AclBindingFilter(
        ResourceType.TOPIC,
        topic,
        ResourcePatternType.MATCH,
        None,  # type: ignore[arg-type]  # any principal
        None,  # type: ignore[arg-type]  # any host
        AclOperation.ANY,
        AclPermissionType.ANY,
    )
    with translate_errors("read the access rules", topic=topic):
        try:
            rules = admin.describe_acls(asked, request_timeout=broker.timeout_s).result(broker.timeout_s + 5)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.SECURITY_DISABLED:
                return TopicAccess(has_rules=False)
            raise
        # The library hides errors: the list is also empty if this user may not read it, or without an
        # authorizer.
        if not rules and not _may_describe(admin, broker.timeout_s):
            return None
    writing = [rule for rule in rules if rule.operation in _WRITING]
    allowed = {rule.principal for rule in writing if rule.permission_type == AclPermissionType.ALLOW}
    denied = {
        rule.principal
        for rule in writing
        if rule.permission_type == AclPermissionType.DENY and rule.host == "*"
    }
    writers = frozenset() if EVERYONE in denied else frozenset(allowed - denied)
    return TopicAccess(has_rules=bool(rules), writers=writers)


def _may_describe(admin: AdminClient, timeout_s: float) -> bool:
    """Whether this user may read access rules."""
    asked = admin.describe_cluster(include_authorized_operations=True, request_timeout=timeout_s)
    return AclOperation.DESCRIBE in (asked.result(timeout_s + 5).authorized_operations or ())


def principal_of(options: Mapping[str, str]) -> str | None:
    """Return the principal of a client at a broker with default settings.

    None if it is unknown, as with certificates and tokens.
    """
    if not options.get("security.protocol", "").upper().startswith("SASL"):
        return None
    mechanism = options.get("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI")).upper()
    if mechanism == "GSSAPI":
        name = options.get("sasl.kerberos.principal", "").partition("@")[0].partition("/")[0]
    else:
        name = options.get("sasl.username", "")
    return f"User:{name}" if name else None
