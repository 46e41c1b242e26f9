"""Makes the settings of one flat table's driver from the configuration: brokers, metastore, key log and
addresses.

The daemon reads topics with librdkafka and Spark with Kafka's Java client, which name the same settings
differently. This module translates the section ``kafka`` as far as there are equivalents. Other settings
belong in ``source.options`` and ``source.secrets`` of the flat table, under the Java client's names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from daemon.config.model import Config
from daemon.config.settings.clusters import KafkaConfig
from daemon.flat.settings import Around, FlatConfig, flat_config
from daemon.keylog.opening import key_log_address
from daemon.keylog.settings import MINING
from state.errors import ConfigError
from streaming.driver.masters import make_reachable
from streaming.settings import FlatSettings


_SAME: Final = frozenset({"client.id", "client.rack", "ssl.endpoint.identification.algorithm"})
"""Settings that have the same names and values in both clients."""
_LOGIN_MODULES: Final = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def flat_settings(config: Config, name: str) -> FlatSettings:
    """Return the checked settings of the flat table ``name`` (or ``db.table``).

    Raises ConfigError for an unknown table, a table without a source, and if the packages of the extra 'flat'
    are missing.
    """
    flat = flat_config(config, name)
    settings = flat.settings(
        Around(
            bootstrap=config.kafka.bootstrap if config.kafka else "",
            client=java_client(config.kafka) if _uses_kafka(flat) and config.kafka else {},
            metastores=metastores_of(config, flat),
            keylog_url=key_log_address(config).get_secret_value(),
            raw_column=_raw_column(config, flat),
        )
    )
    settings.check()
    return replace(settings, spark=make_reachable(settings.spark))


def java_client(kafka: KafkaConfig) -> dict[str, str]:
    """Return the settings with which a Java client connects to the same broker, secrets included.

    Raises ConfigError for a login mechanism without a translation; it must then be in the table's ``source``.
    """
    options = {name: str(value) for name, value in kafka.options.items()}
    settings = options | {name: secret.get_secret_value() for name, secret in kafka.secrets.items()}
    translated = {name: value for name, value in settings.items() if name in _SAME}
    if protocol := settings.get("security.protocol"):
        translated["security.protocol"] = protocol.upper()
    if authority := settings.get("ssl.ca.location"):
        translated |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    return translated | _login(settings)


def _login(settings: Mapping[str, str]) -> dict[str, str]:
    mechanism = settings.get("sasl.mechanism", settings.get("sasl.mechanisms", "")).upper()
    if not mechanism:
        return {}
    if mechanism not in _LOGIN_MODULES:
        raise ConfigError(
            "the login mechanism of section 'kafka' cannot be translated for Spark",
            mechanism=mechanism,
            hint="Set bootstrap, options and secrets in the flat table's source, as the Java client names "
            "them.",
        )
    user, password = (_quoted(settings.get(f"sasl.{part}", "")) for part in ("username", "password"))
    login = f"{_LOGIN_MODULES[mechanism]} required username={user} password={password};"
    return {"sasl.mechanism": mechanism, "sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _uses_kafka(flat: FlatConfig) -> bool:
    return flat.source is not None and flat.source.kind == "kafka" and flat.source.bootstrap is None


def metastores_of(config: Config, flat: FlatConfig) -> tuple[str, ...]:
    """Return the addresses of the table's metastore; none for a table in Spark's own catalog."""
    if flat.cluster is None:
        return tuple(flat.metastore)
    cluster = config.targets.get(flat.cluster) or config.sources.get(flat.cluster)
    assert cluster is not None, "checked with the configuration"
    return tuple(cluster.metastore)


def _raw_column(config: Config, flat: FlatConfig) -> str:
    raw = MINING.of(config).raw_tables.get(flat.raw_table)
    return "value" if raw is None else raw.json_column
