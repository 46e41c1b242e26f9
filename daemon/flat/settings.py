"""The configuration of flat event tables: the raw table, the rules, and the stream that fills them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self

from pydantic import Field, model_validator

from daemon.config.fields import FileLocation, Name, ObjectName, TableName, ThriftUris
from daemon.config.model import Config
from daemon.config.section import ConfigSection, Section, refused, setting
from daemon.config.settings.spark import SparkConfig
from daemon.flat.stream_settings import (
    EventTimeSection,
    FlatSourceConfig,
    LimitsSection,
    RulesSection,
    SealingSection,
)
from daemon.keylog.settings import KeyedTable
from state.columns.rules import FlatRules
from state.errors import ConfigError
from streaming.settings import (
    DEFAULT_PARTITION_COLUMNS,
    FlatSettings,
    Limits,
    PartitionColumn,
    Publishing,
    Sealing,
)


@dataclass(frozen=True, slots=True)
class Around:
    """The values of other sections that the settings of a flat table use."""

    bootstrap: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    """Settings of a Kafka client in Java."""
    metastores: tuple[str, ...] = ()
    """Addresses of the named cluster."""
    keylog_url: str = ""
    """The URL with its password."""
    raw_column: str = "value"


class PartitionColumnConfig(Section):
    """A partition column: the event's hour (UTC) in a pattern."""

    type: Literal["string", "int"] = Field(default="string", description="'string' or 'int'.")
    pattern: str = Field(
        min_length=2,
        max_length=64,
        description="Python's strftime pattern; all columns together must distinguish hours.",
    )


_COLUMNS: Final = {
    column.name: PartitionColumnConfig.model_validate({"type": column.type, "pattern": column.pattern})
    for column in DEFAULT_PARTITION_COLUMNS
}


class FlatConfig(Section):
    """A flat table: keys that users request from a raw table's JSON become its columns."""

    table: TableName = Field(description="The flat table, as db.table.")
    raw_table: TableName = Field(
        description="The raw table whose requests count, as db.table; mining.raw_tables names its JSON "
        "column."
    )
    rules: RulesSection = Field(
        default_factory=FlatRules,
        description="Rules by which requested keys become columns, and columns change.",
    )
    run: bool = Field(
        default=True,
        description="Whether the daemon runs the table's driver; false if 'tideline split run' or another "
        "machine does.",
    )
    location: FileLocation | None = Field(
        default=None,
        description="The table's directory; required, with source and event_time, for a table that Tideline "
        "writes.",
    )
    source: FlatSourceConfig | None = Field(default=None, description="The source of raw events.")
    event_time: EventTimeSection | None = Field(
        default=None, description="The time of an event, which determines its hour."
    )
    checkpoint: FileLocation | None = Field(
        default=None,
        description="Directory of the stream's progress; never share or delete it. Default: .checkpoint in "
        "location.",
    )
    cluster: Name | None = Field(
        default=None,
        description="The target or source whose metastore has the table (Hive 4); default: the setting "
        "'metastore'.",
    )
    metastore: ThriftUris = Field(
        default=[],
        max_length=16,
        description="Addresses of the metastore that has the table, if 'cluster' is not set; empty means "
        "Spark's own catalog.",
    )
    partition_columns: dict[ObjectName, PartitionColumnConfig] = Field(
        default=_COLUMNS, min_length=1, max_length=8, description="Partition columns, in their order."
    )
    dead_letters: FileLocation | None = Field(
        default=None,
        description="Directory of dead letters; default: .dead-letters in location.",
    )
    raw_files: FileLocation | None = Field(
        default=None,
        description="Directory of files of JSON lines that backfills read instead of raw_table.",
    )
    publishing: Literal["auto", "rename", "manifest"] = Field(
        default="auto",
        description="How files become visible: 'rename' (if renames are atomic), 'manifest' (object "
        "stores), or 'auto' by location.",
    )
    trigger_s: float = setting(FlatSettings, "trigger_s")
    compression: Literal["zstd", "zlib", "snappy", "lz4", "none"] = setting(FlatSettings, "compression")
    view: ObjectName | None = Field(
        default=None,
        description="A view in the table's database with the former column names; it is updated when "
        "columns change. Needs a metastore.",
    )
    stuck_s: float = Field(
        default=3_600,
        ge=30,
        le=7 * 86_400,
        description="Time without progress after which the driver is killed and restarted; must be longer "
        "than any batch.",
    )
    spark: SparkConfig = Field(default=SparkConfig(), description="The driver and its executors.")
    sealing: SealingSection = Field(default_factory=Sealing, description="Compaction of hours.")
    limits: LimitsSection = Field(default_factory=Limits, description="Limits of records and samples.")

    @model_validator(mode="after")
    def _check_stream(self) -> Self:
        is_set = {name: getattr(self, name) is not None for name in ("location", "source", "event_time")}
        if any(is_set.values()):
            for name, is_given in is_set.items():
                if not is_given:
                    raise refused(f"has no {name}: location, source and event_time are required together")
            try:
                self.settings(Around()).check()
            except ConfigError as error:
                raise refused(f"{error.message}. {error.hint}".rstrip(". ")) from None
        if self.view == self.table.partition(".")[2]:
            raise refused("has a view with the table's own name")
        return self

    def keyed(self) -> KeyedTable:
        """Return the settings that decide about the table's keys."""
        return KeyedTable(self.table, self.raw_table, self.rules)

    @property
    def is_written(self) -> bool:
        """Whether the table has a stream; a table without one only has reports about its keys."""
        return self.location is not None

    def settings(self, around: Around) -> FlatSettings:
        """Return the driver's settings, completed with values of other sections.

        Raises ConfigError if the table has no stream.
        """
        if self.location is None or self.source is None or self.event_time is None:
            raise ConfigError(
                "the flat table has no stream",
                table=self.table,
                hint="Set location, source and event_time in the configuration (docs/CONFIG.md).",
            )
        database, _, table = self.table.partition(".")
        return FlatSettings(
            database=database,
            table=table,
            location=self.location,
            checkpoint=self.checkpoint or f"{self.location.rstrip('/')}/.checkpoint",
            source=self.source.value(around.bootstrap, dict(around.client)),
            event_time=self.event_time,
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
            sealing=self.sealing,
            limits=self.limits,
            rules=self.rules,
        )


FLAT: Final[ConfigSection[dict[str, FlatConfig]]] = ConfigSection(
    "flat",
    dict[Name, FlatConfig],
    Field(default={}, max_length=64, description="Flat event tables, by name."),
)


def flat_config(config: Config, name: str) -> FlatConfig:
    """Return the flat table with this name or this ``db.table``; raise ConfigError if there is none."""
    for entry, flat in FLAT.of(config).items():
        if name in {entry, flat.table}:
            return flat
    raise ConfigError(
        "unknown flat table",
        name=name,
        known=sorted(flat.table for flat in FLAT.of(config).values()) or None,
        hint="Flat tables are listed under 'flat' in the configuration.",
    )
