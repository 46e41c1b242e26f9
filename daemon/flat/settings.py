"""The settings of flat event tables: which raw table's questions shape them, by which rules, and the stream that fills them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import Field, model_validator

from daemon.config.fields import Name, ObjectName, Place, TableName, ThriftUris
from daemon.config.section import ConfigSection, Section, refused
from daemon.flat.rule_settings import FlatRulesConfig
from daemon.flat.stream_settings import (
    EventTimeConfig,
    FlatLimitsConfig,
    FlatSourceConfig,
    SealingConfig,
    SparkConfig,
)
from daemon.keylog.answers import KeyedTable
from state.columns.paths import KeyPath
from state.errors import ConfigError
from streaming.settings import DirectorySource, EventTime, FlatSettings, PartitionColumn, Publishing


if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.config.model import Config


__all__ = ["Around", "FlatConfig", "FlatRulesConfig"]

DEFAULTS: Final = FlatSettings(
    "db", "table", "/", "/", DirectorySource("/"), EventTime(KeyPath.of_dotted("epoch"))
)
"""For the defaults of settings that the driver's own form has."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a flat table takes from other sections."""

    bootstrap: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of a Java client of Kafka."""
    metastores: tuple[str, ...] = ()
    """Of the named cluster."""
    keylog_url: str = ""
    """With its password."""
    raw_column: str = "value"


class PartitionColumnConfig(Section):
    """A partition column: the event's hour, UTC, in a pattern."""

    type: Literal["string", "int"] = Field(default="string", description="'string' or 'int'.")
    pattern: str = Field(
        min_length=2,
        max_length=64,
        description="Python's strftime pattern; all columns together have to tell one hour from another.",
    )


_COLUMNS: Final = {
    column.name: PartitionColumnConfig.model_validate({"type": column.type, "pattern": column.pattern})
    for column in DEFAULTS.partition_columns
}


class FlatConfig(Section):
    """A flat table: what people ask of a raw table's JSON becomes its columns."""

    table: TableName = Field(description="The flat table, as db.table.")
    raw_table: TableName = Field(
        description="The raw table whose questions count, as db.table; mining.raw_tables tells of its JSON column."
    )
    rules: FlatRulesConfig = Field(
        default=FlatRulesConfig(), description="How questions become columns, and columns change."
    )
    run: bool = Field(
        default=True,
        description="Whether the daemon runs the table's driver; false where 'tideline split run' or another machine does.",
    )
    location: Place | None = Field(
        default=None,
        description="The table's directory; wanted, with source and event_time, as soon as the table is to be written.",
    )
    source: FlatSourceConfig | None = Field(default=None, description="Where raw events come from.")
    event_time: EventTimeConfig | None = Field(default=None, description="Which hour an event belongs to.")
    checkpoint: Place | None = Field(
        default=None,
        description="Directory of what was read and done, never shared and never lost; not given: .checkpoint in location.",
    )
    cluster: Name | None = Field(
        default=None,
        description="The target or source whose metastore has the table (Hive 4); not given: metastore.",
    )
    metastore: ThriftUris = Field(
        default=[],
        max_length=16,
        description="Addresses of the metastore that has the table, where no cluster is named; none: Spark's own catalog.",
    )
    partition_columns: dict[ObjectName, PartitionColumnConfig] = Field(
        default=_COLUMNS, min_length=1, max_length=8, description="Partition columns, in their order."
    )
    dead_letters: Place | None = Field(
        default=None,
        description="Directory of rows that no hour takes; not given: .dead-letters in location.",
    )
    raw_files: Place | None = Field(
        default=None,
        description="Directory of files of JSON lines that backfills read instead of raw_table.",
    )
    publishing: Literal["auto", "rename", "manifest"] = Field(
        default="auto",
        description="How files become visible: 'rename' (where that is atomic), 'manifest' (object stores), 'auto' by location.",
    )
    trigger_s: float = Field(
        default=DEFAULTS.trigger_s,
        ge=0,
        le=86_400,
        description="Time from one batch to the next; 0: at once.",
    )
    compression: Literal["zstd", "zlib", "snappy", "lz4", "none"] = Field(
        default="zstd", description="Compression of ORC files."
    )
    view: ObjectName | None = Field(
        default=None,
        description="A view in the table's database that keeps former column names, written anew when columns change; needs a "
        "metastore.",
    )
    stuck_s: float = Field(
        default=3_600,
        ge=30,
        le=7 * 86_400,
        description="Time without a word from the driver, which is a batch's longest, after which it is killed and started again.",
    )
    spark: SparkConfig = Field(default=SparkConfig(), description="The driver and its executors.")
    sealing: SealingConfig = Field(default=SealingConfig(), description="How hours are compacted.")
    limits: FlatLimitsConfig = Field(default=FlatLimitsConfig(), description="What one record may be.")

    @model_validator(mode="after")
    def _writable(self) -> Self:
        given = {name: getattr(self, name) is not None for name in ("location", "source", "event_time")}
        if any(given.values()):
            for name, is_given in given.items():
                if not is_given:
                    raise refused(f"has no {name}: location, source and event_time are wanted together")
            try:
                self.settings(Around()).check()
            except ConfigError as error:
                raise refused(f"{error.message}. {error.hint}".rstrip(". ")) from None
        if self.view == self.table.partition(".")[2]:
            raise refused("has a view of the table's own name")
        return self

    def keyed(self) -> KeyedTable:
        """Return what decides about the table's keys."""
        return KeyedTable(self.table, self.raw_table, self.rules.values())

    @property
    def is_written(self) -> bool:
        """Whether it has a stream; otherwise only its keys are told about."""
        return self.location is not None

    def settings(self, around: Around) -> FlatSettings:
        """Return the driver's form, with what other sections say; ConfigError where the table has no stream."""
        if self.location is None or self.source is None or self.event_time is None:
            raise ConfigError(
                "the flat table has no stream",
                table=self.table,
                hint="Give it location, source and event_time in the configuration (docs/CONFIG.md).",
            )
        database, _, table = self.table.partition(".")
        return FlatSettings(
            database=database,
            table=table,
            location=self.location,
            checkpoint=self.checkpoint or f"{self.location.rstrip('/')}/.checkpoint",
            source=self.source.value(around.bootstrap, dict(around.client)),
            event_time=self.event_time.value(),
            metastores=tuple(around.metastores or self.metastore),
            keylog_url=around.keylog_url,
            raw_table=self.raw_table,
            raw_column=around.raw_column,
            raw_location=self.raw_files or "",
            partition_columns=tuple(
                PartitionColumn(name, each.type, each.pattern)
                for name, each in self.partition_columns.items()
            ),
            dead_letters=self.dead_letters or "",
            publishing=None if self.publishing == "auto" else Publishing(self.publishing),
            trigger_s=self.trigger_s,
            compression=self.compression,
            spark=self.spark.value(),
            sealing=self.sealing.value(),
            limits=self.limits.value(),
            rules=self.rules.values(),
        )


FLAT: Final[ConfigSection[dict[str, FlatConfig]]] = ConfigSection(
    "flat",
    dict[Name, FlatConfig],
    Field(default={}, max_length=64, description="Flat event tables, by name."),
)


def flat_config(config: Config, name: str) -> FlatConfig:
    """Return the flat table of that name, or with that ``db.table``; raise ConfigError where there is none."""
    for entry, flat in FLAT.of(config).items():
        if name in {entry, flat.table}:
            return flat
    raise ConfigError(
        "there is no such flat table",
        name=name,
        known=sorted(flat.table for flat in FLAT.of(config).values()) or None,
        hint="Flat tables are listed under 'flat' in the configuration.",
    )
