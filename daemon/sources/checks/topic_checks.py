"""Live checks of a source's topic: whether it is usable, and who else may write to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from daemon.config.document import Problem
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Iterator

    from daemon.config.model import Config
    from daemon.config.settings.clusters import SourceConfig
    from daemon.kafka.topic_access import TopicAccess


_HINT: Final = "see 'Access to topics' in docs/RELAY.md, or sign the records (sources.NAME.signing)"
_UNLIMITED: Final = (
    "the content of a compressed batch is not limited, so a writer to the topic can exhaust the memory of "
    "its readers"
)
_CODEC_HINT: Final = "set compression.type=zstd for the topic (kafka-configs --alter)"


def check_topic(config: Config, source: SourceConfig) -> Iterator[Problem]:
    """Yield the problems of a source's topic; raise KafkaUnavailable."""
    # Imported here because they import the Kafka library.
    from daemon.kafka.broker import broker_settings
    from daemon.kafka.topic import source_topic
    from daemon.kafka.topic_access import principal_of, read_access

    assert config.kafka is not None, "checked with the configuration"
    topic, place = source_topic(config, source), f"topic {source.topic}"
    try:
        topic.verify()
        if source.relay.enabled and not topic.may_write():
            hint = "allow Write on the topic for this user"
            yield Problem(place, "topic", None, "the relay's user may not write to the topic", hint)
        if not topic.limits_content():
            yield Problem(place, "compression.type", None, _UNLIMITED, _CODEC_HINT, warning=True)
    except NotFound:
        if not source.relay.enabled:
            hint = "start the relay of this topic first"
            yield Problem(place, "topic", None, "does not exist, and this daemon does not relay", hint)
    if source.signing is None:
        broker = broker_settings(config.kafka)
        own = principal_of(broker.client) if source.relay.enabled else None
        yield from access_problems(place, read_access(broker, source.topic), own)


def access_problems(place: str, access: TopicAccess | None, own: str | None) -> Iterator[Problem]:
    """Yield a warning unless only the relay may write; ``own`` is its principal, if known.

    If the principal is unknown, the check assumes that a single writer is the relay.
    """
    if access is None:
        reason = (
            "this user may not read the access rules, so the check cannot tell who may write to the topic"
        )
        hint = "allow Describe on the cluster for this user, or check the rules with kafka-acls"
    elif not access.has_rules:
        reason = (
            "no access rule applies to the topic: everyone who reaches the broker can write to it, unless an "
            "authorizer is configured and allow.everyone.if.no.acl.found is false"
        )
        hint = _HINT
    elif others := sorted(access.writers - {own}):
        if own is None and len(others) == 1 and others[0] != "User:*":
            return
        reason, hint = f"users other than the relay's may write to the topic: {', '.join(others)}", _HINT
    else:
        return
    yield Problem(place, "writers", None, reason, hint, warning=True)
