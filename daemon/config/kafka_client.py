"""Checks whether the installed Kafka client can log in with Kerberos: the wheel that pip installs cannot.

Without this check, a configuration with Kerberos would look right, and creating any client would fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final


KERBEROS_HINT: Final = (
    "Use the image ('make image'), build the client in a checkout (python -m dev.kafka_client DIR), "
    "or log in with SCRAM, OAUTHBEARER or certificates."
)


def needs_kerberos(options: Mapping[str, object]) -> bool:
    """Whether settings of librdkafka make it log in with Kerberos, which is its default for SASL."""
    protocol = str(options.get("security.protocol", "")).upper()
    mechanism = str(options.get("sasl.mechanism", options.get("sasl.mechanisms", "GSSAPI")))
    return protocol.startswith("SASL") and mechanism.upper() == "GSSAPI"


@cache
def has_kerberos() -> bool:
    """Whether the installed client can log in with Kerberos. Opens no connection."""
    from confluent_kafka import KafkaException, Producer

    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.min.time.before.relogin": 0,  # runs no kinit
        "log_level": 0,
    }
    try:
        Producer(settings)
    except KafkaException:
        return False
    return True
