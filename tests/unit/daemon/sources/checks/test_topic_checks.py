"""The live check reports who may write to a topic besides its relay."""

from __future__ import annotations

import pytest

from daemon.kafka.topic_access import TopicAccess, principal_of
from daemon.sources.checks.topic_checks import access_problems


def writers(*names: str) -> TopicAccess:
    return TopicAccess(has_rules=True, writers=frozenset(names))


@pytest.mark.parametrize(
    ("access", "own", "reason"),
    [
        (None, "User:tideline", "may not read the access rules"),
        (TopicAccess(has_rules=False), "User:tideline", "no access rule applies"),
        (writers("User:tideline", "User:etl"), "User:tideline", "may write to the topic: User:etl"),
        (writers("User:*"), None, "User:*"),
        (writers("User:a", "User:b"), None, "User:a, User:b"),
    ],
)
def test_everything_but_the_relay_alone_is_a_warning(
    access: TopicAccess | None, own: str | None, reason: str
) -> None:
    (found,) = access_problems("topic t", access, own)
    assert found.warning
    assert reason in found.reason


@pytest.mark.parametrize(
    ("access", "own"),
    [(writers("User:tideline"), "User:tideline"), (writers("User:cn=x"), None), (writers(), None)],
)
def test_the_relay_alone_is_not(access: TopicAccess, own: str | None) -> None:
    assert list(access_problems("topic t", access, own)) == []


@pytest.mark.parametrize(
    ("options", "principal"),
    [
        ({}, None),
        ({"security.protocol": "SSL"}, None),
        ({"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "a"}, "User:a"),
        ({"security.protocol": "sasl_ssl", "sasl.kerberos.principal": "tide/host@REALM"}, "User:tide"),
    ],
)
def test_the_principal_follows_from_the_login(options: dict[str, str], principal: str | None) -> None:
    assert principal_of(options) == principal
