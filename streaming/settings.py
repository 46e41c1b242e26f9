"""What one flat table is made from, where it lies and how it is kept: the settings of a Spark driver as one value.

The daemon builds it from its configuration file, tests by hand. Everything in it is checked once, here; what the thresholds of
columns and types mean is ``state.columns.rules``. Times are seconds unless their name says otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.columns.rules import FlatRules
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.paths import KeyPath


_NAME: Final = re.compile(r"[a-z0-9_]{1,128}", re.ASCII)
_PARTITION_TYPES: Final = {"string", "int"}
DAY_S: Final = 86_400
_RENAMING_SCHEMES: Final = {"file", "hdfs", "viewfs"}


class EpochUnit(StrEnum):
    """How events tell their time."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    ISO = "iso"
    """A text such as ``2016-04-18T21:05:00Z``; without an offset it is UTC."""


class LatePolicy(StrEnum):
    """Where an event goes whose hour was sealed longer ago than the grace allows."""

    TO_ITS_HOUR = "hour"
    TO_DEAD_LETTERS = "dead-letter"


class Publishing(StrEnum):
    """How staged files become the hour's files."""

    RENAME = "rename"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic of raw events, one JSON document per record value."""

    bootstrap: str
    topic: str
    starting_offsets: str = "earliest"
    """``earliest``, ``latest`` or Spark's JSON of offsets; read only when the checkpoint is new."""
    records_per_batch: int = 500_000
    records_to_wait_for: int = 0
    """A batch begins when so many records are there, or after ``wait_s``; 0 begins at once."""
    wait_s: float = 60.0
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the Kafka clients, such as ``security.protocol``, without the ``kafka.`` that Spark puts in front."""


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A directory in which files of JSON lines appear, each whole at once (written elsewhere, then moved in)."""

    path: str
    files_per_batch: int = 100


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its value is the event's hour, UTC, in a ``strftime`` pattern."""

    name: str
    type: str
    """``string`` or ``int``."""
    pattern: str


DEFAULT_PARTITION_COLUMNS: Final = (
    PartitionColumn("yyyy_mm_dd", "string", "%Y-%m-%d"),
    PartitionColumn("hh", "int", "%H"),
)


@dataclass(frozen=True, slots=True)
class EventTime:
    """Which hour an event belongs to. A row without a readable time is quarantined, a malformed one goes by its arrival."""

    key: KeyPath
    unit: EpochUnit = EpochUnit.SECONDS
    earliest_s: int = 946_684_800
    """Earlier than this (seconds since 1970; by default the year 2000) no event can have happened."""
    future_s: int = 3_600
    """How far ahead of this machine's clock an event may be."""
    lateness_s: int = 900
    """An hour is sealed when the watermark is this far behind its end."""
    grace_s: int = DAY_S
    """Events later than this behind the watermark are too late."""
    too_late: LatePolicy = LatePolicy.TO_DEAD_LETTERS
    idle_s: int = 900
    """A partition of the topic without events for so long no longer holds the watermark back."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """The Spark session. ``conf`` goes to Spark as it is and wins over what Tideline sets."""

    master: str = "local[2]"
    driver_memory: str = "1g"
    jars: tuple[str, ...] = ()
    """Paths of jars; empty means the connector that Tideline's lock names, where a Kafka source needs it."""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sealing:
    """When hours are compacted and for how long they are kept."""

    file_bytes: int = 256 * 1024 * 1024
    hours_per_pass: int = 4
    """At most so many hours are sealed between two batches, so that the stream is not starved."""
    old_files_s: int = 3_600
    """Replaced directories are deleted after this long: no query still reads them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one record may be."""

    record_bytes: int = 8 * 1024 * 1024
    """A longer record is a dead letter."""
    sample_rows: int = 2_000
    """Rows of a batch that are looked at one by one, to learn the kinds of values behind new keys."""


@dataclass(frozen=True, slots=True)
class FlatSettings:
    """Everything that one flat table needs. ``check`` is called by whoever builds it."""

    database: str
    table: str
    location: str
    """The table's directory, a URI or an absolute path."""
    checkpoint: str
    """Spark's checkpoint and Tideline's own records of the stream; one per table, never shared."""
    source: KafkaSource | DirectorySource
    event_time: EventTime
    metastores: tuple[str, ...] = ()
    """Addresses of a Hive 4 metastore, ``thrift://host:port``; empty means Spark's built-in catalog."""
    keylog_url: str = field(default="", repr=False)
    """SQLAlchemy's URL of the key log; empty means that only the rules' whitelist asks for keys."""
    raw_table: str = ""
    """``db.table`` of the raw JSON, by which the key log and backfills know it; empty where there is none."""
    raw_column: str = "value"
    raw_location: str = ""
    """Directory of files of JSON lines that backfills read instead of ``raw_table``."""
    partition_columns: tuple[PartitionColumn, ...] = DEFAULT_PARTITION_COLUMNS
    dead_letters: str = ""
    """Directory for rows that no hour takes; empty means ``.dead-letters`` in the table's directory."""
    publishing: Publishing | None = None
    """None chooses by the scheme of ``location``."""
    trigger_s: float = 60.0
    compression: str = "zstd"
    spark: SparkSettings = field(default_factory=SparkSettings)
    sealing: Sealing = field(default_factory=Sealing)
    limits: Limits = field(default_factory=Limits)
    rules: FlatRules = field(default_factory=FlatRules)
    """What becomes a column, of which type, and for how long partitions are kept."""

    @property
    def name(self) -> str:
        """The table as people say it: ``database.table``."""
        return f"{self.database}.{self.table}"

    @property
    def publishes_by(self) -> Publishing:
        """How files are published: as set, else by rename where that is atomic, else a manifest says which files count."""
        if self.publishing is not None:
            return self.publishing
        return Publishing.RENAME if has_renames(self.location) else Publishing.MANIFEST

    @property
    def retention_s(self) -> int:
        """How long an hour is kept behind the watermark."""
        return self.rules.retention_days * DAY_S

    @property
    def dead_letter_directory(self) -> str:
        """Where rows go that no hour takes."""
        return self.dead_letters or f"{self.location.rstrip('/')}/.dead-letters"

    def check(self) -> None:
        """Raise ConfigError for the first setting that cannot be."""
        for name in (self.database, self.table, *(column.name for column in self.partition_columns)):
            if not _NAME.fullmatch(name):
                raise ConfigError("a name is not lower-case letters, digits and _", name=name)
        for setting, value in (("location", self.location), ("checkpoint", self.checkpoint)):
            if not (value.startswith("/") or ":/" in value):
                raise ConfigError(
                    "a place is neither an absolute path nor a URI", setting=setting, value=value
                )
        if _file_system(self.dead_letter_directory) != _file_system(self.location):
            raise ConfigError(
                "the dead letters lie on another file system than the table",
                dead_letters=self.dead_letters,
                location=self.location,
                hint="Files are moved there, which no file system does across its border.",
            )
        _check_partition_columns(self.partition_columns)
        if self.event_time.earliest_s < 0 or self.event_time.future_s < 0 or self.event_time.lateness_s < 0:
            raise ConfigError("a time span is negative", setting="event_time")
        if self.event_time.grace_s < self.event_time.lateness_s:
            raise ConfigError("the grace for late events is shorter than the lateness that sealing waits for")


def has_renames(location: str) -> bool:
    """Whether the file system of an absolute path or a URI renames in one atomic step, judged by its scheme."""
    scheme, colon, _ = location.partition(":/")
    return not colon or scheme in _RENAMING_SCHEMES


def _file_system(place: str) -> tuple[str, str]:
    scheme, _, rest = place.partition(":") if ":/" in place else ("file", "", "")
    return scheme, rest[2:].partition("/")[0] if rest.startswith("//") else ""


def _check_partition_columns(columns: tuple[PartitionColumn, ...]) -> None:
    if not columns or len({column.name for column in columns}) != len(columns):
        raise ConfigError("a flat table needs partition columns of different names")
    for column in columns:
        if column.type not in _PARTITION_TYPES:
            raise ConfigError("a partition column is string or int", column=column.name, type=column.type)
    joined = "".join(column.pattern for column in columns)
    if not all(part in joined for part in ("%Y", "%m", "%d", "%H")) and "%s" not in joined:
        raise ConfigError(
            "the partition columns do not tell one hour from another",
            patterns=[column.pattern for column in columns],
            hint="Their patterns together need year, month, day and hour: %Y, %m, %d, %H.",
        )
