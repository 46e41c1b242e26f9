"""Connection settings for Kafka, and the translation of librdkafka's errors.

librdkafka reconnects and retries on its own. So if it reports an error, the retries have failed until the
timeout, or the broker has refused the request. A timeout becomes KafkaUnavailable, and the loop restarts. A
refusal becomes an error that a retry does not resolve. Denied access counts as unavailable, because
credentials expire, and operators renew them while the daemon runs. No KafkaException leaves the modules that
use the library: they call ``translate_errors``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException

from daemon.config.kafka_client import KERBEROS_HINT, has_kerberos, needs_kerberos
from daemon.config.settings.clusters import KafkaConfig
from state.errors import ConfigError, KafkaUnavailable, LimitExceeded, NotFound, Refused, TidelineError


LIBRARY_LOG: Final = logging.getLogger("tideline.librdkafka")
"""Log of librdkafka. Quiet by default, because relevant failures also become errors of the call."""
# Without a handler, Python itself would print warnings, and bury the error of a command that finds no broker.
LIBRARY_LOG.addHandler(logging.NullHandler())
# Warnings report internal retries, for example while a coordinator is loading.
LIBRARY_LOG.setLevel(logging.ERROR)

_NO_SUCH_TOPIC: Final = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,  # noqa: SLF001 - librdkafka's local codes are spelled so
        KafkaError._UNKNOWN_PARTITION,  # noqa: SLF001 - as above
    }
)
_UNREACHABLE: Final = frozenset(
    {
        KafkaError._ALL_BROKERS_DOWN,  # noqa: SLF001 - as above
        KafkaError._TRANSPORT,  # noqa: SLF001 - as above
        KafkaError._TIMED_OUT,  # noqa: SLF001 - as above
        KafkaError._RESOLVE,  # noqa: SLF001 - as above
    }
)
"""No broker answered. The failure is not about the object of the request, so the message does not name it."""
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})
_NOT_ALLOWED: Final = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.SASL_AUTHENTICATION_FAILED,
    }
)
_WRONG_SETTING: Final = frozenset(
    # SLF001: librdkafka's local codes are spelled so
    {KafkaError.INVALID_CONFIG, KafkaError.POLICY_VIOLATION, KafkaError._INVALID_ARG}  # noqa: SLF001
)
_ANSWERED_NO: Final = frozenset({KafkaError.TOPIC_ALREADY_EXISTS, KafkaError.OFFSET_OUT_OF_RANGE})


@dataclass(frozen=True, slots=True)
class BrokerSettings:
    """Addresses of the brokers, and settings of the connection."""

    bootstrap: str
    """``host:port,host:port``"""
    client: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Settings of librdkafka, such as ``security.protocol``. They override Tideline's own."""
    client_id: str = "tideline"
    timeout_s: float = 10.0
    """How long a broker may take to answer before it counts as unavailable."""

    def librdkafka(self, **settings: Any) -> dict[str, Any]:
        """Return the configuration of a client; a name ``a_b`` in ``settings`` stands for librdkafka's
        ``a.b``.

        Raises ConfigError if the configuration needs Kerberos and the installed client does not support it.
        """
        if needs_kerberos(self.client) and not has_kerberos():
            raise ConfigError(
                "the brokers need Kerberos, and the installed Kafka client was built without it",
                hint=KERBEROS_HINT,
            )
        named = {name.replace("_", "."): value for name, value in settings.items()}
        own = {
            "bootstrap.servers": self.bootstrap,
            "client.id": self.client_id,
            "reconnect.backoff.max.ms": 2000,  # default 10 s; detects a restarted broker sooner
            "topic.metadata.refresh.interval.ms": 60000,
            "logger": LIBRARY_LOG,
        }
        return own | named | dict(self.client)


def broker_settings(kafka: KafkaConfig) -> BrokerSettings:
    """Return the settings of the connection, including secrets."""
    options = {key: _librdkafka(value) for key, value in kafka.options.items()}
    secrets = {key: secret.get_secret_value() for key, secret in kafka.secrets.items()}
    return BrokerSettings(kafka.bootstrap, client=options | secrets)


def _librdkafka(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A record of a topic. ``offset`` is None if the record was made from the notification log."""

    offset: int | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    key: bytes | None = None
    time_ms: int = 0
    """Its timestamp in the topic."""

    @property
    def time_s(self) -> int:
        """The record's timestamp in whole seconds (Unix time)."""
        return self.time_ms // 1000

    @property
    def size_bytes(self) -> int:
        """The size of the value, which counts for the limits of queues."""
        return len(self.value or b"")


@contextmanager
def translate_errors(doing: str, **context: object) -> Iterator[None]:
    """Convert a KafkaException in the block into an error of the tree with the message "cannot ``doing``"."""
    try:
        yield
    except KafkaException as error:
        raise translate_error(error.args[0], doing, **context) from error


def translate_error(error: KafkaError, doing: str, **context: object) -> TidelineError:
    """Return the error of the tree for an error of librdkafka."""
    values: dict[str, Any] = {**context, "kafka": error.name(), "reason": error.str()}
    if error.code() in _UNREACHABLE:
        return KafkaUnavailable("no Kafka broker answers", doing=doing, **values)
    kind, hint = _meaning(error.code())
    return kind(f"cannot {doing}", hint=hint, **values)


def _meaning(code: int) -> tuple[type[TidelineError], str | None]:
    """Return the error class for a code of librdkafka, and a hint unless the class's own is better."""
    if code in _NO_SUCH_TOPIC:
        return NotFound, "The topic does not exist; the relay creates it."
    if code in _TOO_LARGE:
        return LimitExceeded, None
    if code in _NOT_ALLOWED:
        return KafkaUnavailable, "Check the credentials and the access lists of Kafka; Tideline tries again."
    if code in _WRONG_SETTING:
        return ConfigError, None
    if code in _ANSWERED_NO:
        return Refused, None
    return KafkaUnavailable, "Kafka answered with this error; Tideline tries again."
