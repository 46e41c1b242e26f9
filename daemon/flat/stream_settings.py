"""Sections of a flat table.

The sections of rules, event time, sealing and limits are read into the classes of ``state.columns.rules`` and
``streaming.settings``. The source has its own classes here.
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from daemon.config.fields import (
    Bootstrap,
    FileLocation,
    Keys,
    KeyText,
    Options,
    Secret,
    Topic,
    as_list,
    parse_key,
)
from daemon.config.section import Form, Section, ValueSection, matching, refused, setting
from daemon.config.settings.spark import to_java
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.types import ColumnType
from streaming.settings import DirectorySource, Documents, EventTime, KafkaSource, Limits, Sealing


PATTERN_CHARS_MAX: Final = 1_024
ENTRIES_MAX: Final = 1_500
"""Keys, patterns or types in one list at most."""


Pattern = Annotated[str, Field(min_length=1, max_length=PATTERN_CHARS_MAX)]
TypeName = Literal["tinyint", "smallint", "int", "bigint", "double", "string", "boolean"]


def _parse_keys(texts: list[str]) -> frozenset[KeyPath]:
    return frozenset(map(parse_key, texts))


def _write_keys(keys: frozenset[KeyPath]) -> list[str]:
    return sorted(key.text for key in keys)


def _parse_pins(pins: dict[str, str]) -> dict[KeyPath, ColumnType]:
    return {parse_key(key): ColumnType[name.upper()] for key, name in pins.items()}


def _write_pins(pins: dict[KeyPath, ColumnType]) -> dict[str, str]:
    return {key.text: column_type.name.lower() for key, column_type in pins.items()}


_KEYS: Final = Form(Annotated[Keys, Field(max_length=ENTRIES_MAX)], _parse_keys, _write_keys)
_PATTERNS: Final = Form(
    Annotated[list[Pattern], BeforeValidator(as_list), Field(max_length=ENTRIES_MAX)], tuple, list
)
_PINS: Final = Form(
    Annotated[dict[KeyText, TypeName], Field(max_length=ENTRIES_MAX)], _parse_pins, _write_pins
)

RulesSection = Annotated[
    FlatRules,
    ValueSection(
        FlatRules,
        renamed={"asked_days": "requested_days"},
        numeric_strings=_KEYS,
        whitelist=_KEYS,
        skip=_PATTERNS,
        pins=_PINS,
    ),
]
EventTimeSection = Annotated[
    EventTime, ValueSection(EventTime, key=Form(KeyText, parse_key, lambda key: key.text))
]
SealingSection = Annotated[Sealing, ValueSection(Sealing)]
LimitsSection = Annotated[Limits, ValueSection(Limits)]


class FlatSourceConfig(Section):
    """The source of raw events: a topic with one JSON document per record, or a directory of files of JSON
    lines.
    """

    kind: Literal["kafka", "directory"] = Field(description="'kafka' or 'directory'.")
    topic: Topic | None = Field(default=None, description="Topic of the events; only for 'kafka'.")
    bootstrap: Bootstrap | None = Field(
        default=None,
        description="Brokers of the topic; default: those of 'kafka', with its options and secrets. Only "
        "for 'kafka'.",
    )
    options: Options = Field(
        default={},
        description="Settings of the Java client by its own names (ssl.truststore.location); they take "
        "precedence over those derived from 'kafka'.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        description="Secret settings of the Java client, such as "
        "sasl.jaas.config: {file: PATH} or {env: NAME}.",
    )
    starting_offsets: Annotated[
        str, matching(r"(?s)earliest|latest|\{.*\}", "must be earliest, latest or Spark's JSON of offsets")
    ] = setting(KafkaSource, "starting_offsets", note="Only for 'kafka'.")
    records_per_batch: int = setting(KafkaSource, "records_per_batch", note="Only for 'kafka'.")
    records_to_wait_for: int = setting(KafkaSource, "records_to_wait_for", note="Only for 'kafka'.")
    wait_s: float = setting(KafkaSource, "wait_s", note="Only for 'kafka'.")
    documents: Literal["one", "many"] = setting(KafkaSource, "documents")
    path: FileLocation | None = Field(
        default=None,
        description="Directory in which complete files appear (by rename). Only for 'directory'.",
    )
    files_per_batch: int = setting(DirectorySource, "files_per_batch", note="Only for 'directory'.")

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if (self.topic if self.kind == "kafka" else self.path) is None:
            raise refused(f"is of kind {self.kind} but has no {'topic' if self.kind == 'kafka' else 'path'}")
        return self

    def value(self, bootstrap: str, options: dict[str, str]) -> KafkaSource | DirectorySource:
        """Return the source as the driver takes it; ``bootstrap`` and ``options`` (of a Java client) are the
        defaults.
        """
        if self.path is not None and self.kind == "directory":
            return DirectorySource(self.path, self.files_per_batch, Documents(self.documents))
        own = {name: to_java(value) for name, value in self.options.items()}
        secrets = {name: secret.get_secret_value() for name, secret in self.secrets.items()}
        return KafkaSource(
            bootstrap=self.bootstrap or bootstrap,
            topic=self.topic or "",
            starting_offsets=self.starting_offsets,
            records_per_batch=self.records_per_batch,
            records_to_wait_for=self.records_to_wait_for,
            wait_s=self.wait_s,
            options=({} if self.bootstrap else options) | own | secrets,
            documents=Documents(self.documents),
        )
