"""Settings of the systems that the daemon connects to: clusters with their relays and logins, and the broker.

Several capabilities use them, so they belong to none. A source may have any of a relay, replicas and a
catalog.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator

from daemon.config.fields import (
    Bootstrap,
    FileSecret,
    Locations,
    Options,
    Secret,
    ThriftUris,
    Topic,
    as_list,
)
from daemon.config.section import Section, matching, refused, setting
from handlers.metastore.addresses import (
    CONNECTIONS_MAX,
    REPLY_BYTES_MAX,
    KerberosLogin,
    PasswordLogin,
    Protection,
)


if TYPE_CHECKING:
    from handlers.decoding.decoder import Format
    from handlers.metastore.addresses import Login


StartAt = Literal["current", "earliest"] | int
TOPIC_RETENTION_S: Final = 7 * 24 * 3600


def _check_table(text: str) -> str:
    if not re.fullmatch(r"[^.\s]+\.[^.\s]+", text):
        raise refused("must be the name of a table with its database, such as shop.clicks")
    return text.lower()


_Connections = Annotated[
    int,
    Field(
        ge=2,
        le=1024,
        description="Connections to the metastore for all policies of the daemon together. A call waits for "
        "a connection until its deadline.",
    ),
]


class RelayConfig(Section):
    """Publication of a source's notification log to its topic."""

    enabled: bool = Field(
        default=True,
        description="Whether this daemon publishes the source's notification log. Set it to false if "
        "another daemon does.",
    )
    start: StartAt = Field(
        default="current",
        union_mode="left_to_right",
        description="First event if neither the topic nor the state has a position: 'current' (after the "
        "newest event), 'earliest' (the oldest retained event) or an event id.",
    )
    batch_events: int = Field(
        default=1000, ge=1, le=100_000, description="Events requested in one metastore call."
    )
    reply_bytes_max: int = Field(
        default=REPLY_BYTES_MAX,
        ge=1024 * 1024,
        le=8 * 1024 * 1024 * 1024,
        description="Largest answer of the metastore to read into memory. The relay requests a larger one "
        "again in smaller pieces, and relays a single event above the limit without its content. Write "
        "events of a transaction are not held in memory and may be sixteen times as large.",
    )
    call_timeout_s: float = Field(
        default=60,
        gt=0,
        le=3600,
        description="Time limit of one metastore call, including retries. For write events, the time counts "
        "from the last byte received.",
    )
    record_bytes_max: int = Field(
        default=524_288,
        ge=4096,
        le=16 * 1024 * 1024,
        description="Maximum size of a Kafka record. Commits with more files have more parts.",
    )
    list_partitions: bool = Field(
        default=True,
        description="Whether the relay lists partitions that Hive left out of a transaction's write events, "
        "in databases that policies replicate. It needs read_roots and the settings of 'files'. Otherwise "
        "replicas list them later, and a compaction may have removed the files by then.",
    )
    scan_tables: list[Annotated[str, AfterValidator(_check_table)]] = Field(
        default=[],
        max_length=10_000,
        description="Partitioned tables ('db.table') of a source before Hive 4 that receive writes without "
        "events: from Hive's streaming API, HCatalog or Impala. At each commit, the relay looks for "
        "partitions whose directories have changed, which costs one listing of each inner directory.",
    )
    poll_min_s: float = Field(
        default=0.01,
        gt=0,
        le=3600,
        description="Pause after the first empty answer; it doubles up to poll_max_s.",
    )
    poll_max_s: float = Field(
        default=0.2,
        gt=0,
        le=600,
        description="Longest pause between two calls to an idle source; a new event waits at most this long.",
    )
    topic_retention_s: int = Field(
        default=TOPIC_RETENTION_S,
        ge=3600,
        description="Retention of the topic if the relay creates it (7 days).",
    )


class AuthConfig(Section):
    """The login at a metastore that requires SASL."""

    mechanism: Literal["kerberos", "plain"] = Field(
        description="'kerberos' (GSSAPI) or 'plain' (user and password; use an address with thrift+tls://)."
    )
    principal: (
        Annotated[
            str,
            matching(
                r"[^/@\s]+/[^/@\s]+@[^/@\s]+",
                "must be a principal with a host and a realm, such as hive/_HOST@EXAMPLE.COM",
            ),
        ]
        | None
    ) = Field(
        default=None,
        description="Principal of the metastore, as in its hive.metastore.kerberos.principal; _HOST stands "
        "for the host of the address. Required for 'kerberos'.",
    )
    client_principal: (
        Annotated[
            str,
            matching(r"[^@\s]+@[^/@\s]+", "must be a principal with a realm, such as tideline@EXAMPLE.COM"),
        ]
        | None
    ) = Field(
        default=None,
        description="Principal of Tideline; default: the first one in the keytab. Only for 'kerberos'.",
    )
    keytab: Path | None = Field(
        default=None,
        description="Keytab of client_principal, from which Tideline obtains and renews its tickets. "
        "Default: the ticket cache of the process (kinit, KRB5CCNAME). Only for 'kerberos'.",
    )
    protection: Protection = setting(KerberosLogin, "protection")
    user: str | None = Field(default=None, description="User of the metastore. Required for 'plain'.")
    password: Secret | None = Field(
        default=None, description="Password, as {file: PATH} or {env: NAME}. Required for 'plain'."
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        needed = ("principal",) if self.mechanism == "kerberos" else ("user", "password")
        if missing := [name for name in needed if getattr(self, name) is None]:
            raise refused(f"has the mechanism {self.mechanism} but no {' and no '.join(missing)}")
        of_others = (
            {"user", "password"}
            if self.mechanism == "kerberos"
            else {"principal", "client_principal", "keytab", "protection"}
        )
        if surplus := sorted(of_others & self.model_fields_set):
            raise refused(
                f"has settings that the mechanism {self.mechanism} does not use: {', '.join(surplus)}"
            )
        return self

    def login(self) -> Login:
        """Return the login as the client takes it."""
        if self.mechanism == "plain":
            assert self.user is not None, "checked by the section"
            assert self.password is not None, "checked by the section"
            file = self.password if isinstance(self.password, FileSecret) else None
            return PasswordLogin(self.user, self.password.get_secret_value(), file)
        assert self.principal is not None, "checked by the section"
        return KerberosLogin(self.principal, self.client_principal, self.keytab, self.protection)


_SIGNING_KEY_CHARS_MIN: Final = 32


def _check_signing_key(key: SecretStr) -> SecretStr:
    if len(key.get_secret_value()) < _SIGNING_KEY_CHARS_MIN:
        raise refused(
            f"must have at least {_SIGNING_KEY_CHARS_MIN} characters, as 'openssl rand -hex 32' prints"
        )
    return key


SigningKey = Annotated[Secret, AfterValidator(_check_signing_key)]


class SigningConfig(Section):
    """Signatures (HMAC-SHA256) of the records of a topic.

    All daemons that use the topic need the key, and the same name for the source.
    """

    key: SigningKey = Field(
        description="Key with which the relay signs, as {file: PATH} or {env: NAME}: at least 32 characters."
    )
    accept: Annotated[list[SigningKey], BeforeValidator(as_list)] = Field(
        default=[],
        max_length=4,
        description="Further keys that readers accept while you replace the key.",
    )


class SourceConfig(Section):
    """A cluster to follow."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the source's metastore, tried in this order."
    )
    auth: AuthConfig | None = Field(
        default=None, description="Login at the metastore; omit it if the metastore does not require SASL."
    )
    connections_max: _Connections = CONNECTIONS_MAX
    topic: Topic = Field(
        description="Kafka topic of the source's events, with one partition. Letters, digits, '.', '_' and "
        "'-' are allowed."
    )
    format: Literal["auto", "tideline-1", "hms", "apiary", "apiary-sns"] = Field(
        default="auto",
        description="Format of the topic's records; 'auto' recognizes each record. If this daemon relays "
        "the source, readers accept only 'tideline-1'.",
    )
    signing: SigningConfig | None = Field(
        default=None,
        description="Signatures of the topic's records. If given, the relay signs each record, and readers "
        "refuse records without a valid signature. Only for the format 'tideline-1'.",
    )
    relay: RelayConfig = Field(
        default=RelayConfig(), description="How the relay publishes the notification log."
    )
    read_roots: Locations = Field(
        default=[],
        max_length=64,
        description="Locations from which Tideline may copy files: the warehouse, the external locations "
        "and the change manager's root. Events name the files to copy, so this setting limits the files "
        "that a writer to the topic can make Tideline read. Required if a policy uses the source.",
    )

    @model_validator(mode="after")
    def _relayed(self) -> Self:
        if self.relay.enabled and self.format not in {"auto", "tideline-1"}:
            raise refused(
                f"has the format {self.format}, which the relay does not write: "
                "set relay.enabled to false if another program publishes the events"
            )
        if self.signing is not None and self.format not in {"auto", "tideline-1"}:
            raise refused(f"has the format {self.format}, whose records are not signed: remove 'signing'")
        return self

    def record_format(self) -> Format | Literal["auto"]:
        """Return the format to read: Tideline's own if this daemon relays or records are signed, else the set
        one.
        """
        return "tideline-1" if self.relay.enabled or self.signing is not None else self.format


class TargetConfig(Section):
    """A cluster with replicas."""

    metastore: ThriftUris = Field(
        min_length=1, max_length=16, description="Addresses of the target's metastore, tried in this order."
    )
    auth: AuthConfig | None = Field(
        default=None, description="Login at the metastore; omit it if the metastore does not require SASL."
    )
    connections_max: _Connections = CONNECTIONS_MAX
    compactions_every_s: float = Field(
        default=60,
        ge=1,
        le=600,
        description="Interval at which the daemon reads the compactions of the target's databases for the "
        "status. Each reading costs five calls for all policies together, and one for each table with a "
        "failed compaction.",
    )


class KafkaConfig(Section):
    """The broker that holds the sources' topics."""

    bootstrap: Bootstrap = Field(description="Comma-separated list of brokers as host:port.")
    options: Options = Field(
        default={},
        description="Further settings of librdkafka, such as security.protocol.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        description="Secret settings of librdkafka, such as sasl.password: {file: PATH} or {env: NAME}.",
    )
    dead_letter_topic: Topic = Field(
        default="tideline.dead-letters",
        description="Topic of dead letters: records that Tideline could not use.",
    )
