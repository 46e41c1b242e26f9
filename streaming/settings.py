"""The settings of one flat table's stream as one value: source, location and maintenance.

The daemon builds it from its configuration file; tests build it directly. Only this module declares defaults,
bounds and descriptions; the configuration reads them from these classes (``daemon.config.section``).
``state.columns.rules`` has the thresholds of columns and types. Times are in seconds unless their name says
otherwise.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from annotated_types import Interval

from state.bounds import check_bounds
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.errors import ConfigError


_NAME: Final = re.compile(r"[a-z0-9_]{1,128}", re.ASCII)
_PARTITION_TYPES: Final = {"string", "int"}
DAY_S: Final = 86_400
_RENAMING_SCHEMES: Final = {"file", "hdfs", "viewfs"}


class EpochUnit(StrEnum):
    """The form of event times."""

    SECONDS = "s"
    MILLISECONDS = "ms"
    MICROSECONDS = "us"
    NANOSECONDS = "ns"
    ISO = "iso"
    """A text with a date, such as ``2016-04-18T21:05:00Z``; without an offset it is UTC
    (``streaming.source.event_times``)."""


class Documents(StrEnum):
    """How many JSON documents a record or a line holds."""

    ONE = "one"
    MANY = "many"


class LatePolicy(StrEnum):
    """The destination of events that arrive after the grace period."""

    TO_ITS_HOUR = "hour"
    TO_DEAD_LETTERS = "dead-letter"


class Publishing(StrEnum):
    """The way in which staged files become the files of an hour."""

    RENAME = "rename"
    MANIFEST = "manifest"


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """A topic of raw events, one JSON document per record value."""

    bootstrap: str
    topic: str
    starting_offsets: str = "earliest"
    """Start of a new checkpoint: 'earliest', 'latest' or Spark's JSON of offsets."""
    records_per_batch: Annotated[int, Interval(ge=1, le=100_000_000)] = 500_000
    """Records of a batch at most."""
    records_to_wait_for: Annotated[int, Interval(ge=0, le=100_000_000)] = 0
    """A batch starts when this many records are available or wait_s has passed; 0 starts at once."""
    wait_s: Annotated[float, Interval(gt=0, le=DAY_S)] = 60.0
    """Longest wait for records_to_wait_for."""
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of the Kafka clients, such as ``security.protocol``, without Spark's prefix ``kafka.``."""
    documents: Documents = Documents.ONE
    """JSON documents of a record or a line: 'one', or 'many' that follow each other, as {…}{…}; each is then
    a row."""


@dataclass(frozen=True, slots=True)
class DirectorySource:
    """A directory into which complete files of JSON lines are moved."""

    path: str
    files_per_batch: Annotated[int, Interval(ge=1, le=100_000)] = 100
    """Files of a batch at most."""
    documents: Documents = Documents.ONE


@dataclass(frozen=True, slots=True)
class PartitionColumn:
    """A partition column: its value is the event's hour (UTC) in a ``strftime`` pattern."""

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
    """How to find the hour of an event."""

    key: KeyPath
    """Key of the event time. A row without a readable time is a dead letter; a malformed row uses its arrival
    time."""
    unit: EpochUnit = EpochUnit.SECONDS
    """'s', 'ms', 'us' or 'ns' since 1970, or 'iso' for texts such as 2016-04-18T21:05:00Z."""
    earliest_s: Annotated[int, Interval(ge=0)] = 946_684_800
    """Earliest possible event time in seconds since 1970; by default the year 2000."""
    future_s: Annotated[int, Interval(ge=0, le=7 * DAY_S)] = 3_600
    """How far ahead of the clock an event may be; events further ahead are dead letters."""
    lateness_s: Annotated[int, Interval(ge=0, le=30 * DAY_S)] = 900
    """The driver seals an hour when the watermark is this far past its end."""
    grace_s: Annotated[int, Interval(ge=0, le=365 * DAY_S)] = DAY_S
    """Events further than this behind the watermark are too late; at least lateness_s."""
    too_late: LatePolicy = LatePolicy.TO_DEAD_LETTERS
    """Destination of late events: 'dead-letter', or their 'hour', which Tideline then seals again."""
    idle_s: Annotated[int, Interval(ge=1, le=30 * DAY_S)] = 900
    """A partition of the topic that is silent for this long does not hold back the watermark."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """Settings of the Spark session. Spark gets ``conf`` unchanged; it takes precedence over Tideline's
    settings.
    """

    master: str = "local[2]"
    """'local[N]' runs in the driver with N cores; 'k8s://...', 'yarn' and 'spark://...' use executors."""
    driver_memory: str = "1g"
    """Heap of the driver's JVM; its process needs about 0.7g more."""
    jars: tuple[str, ...] = ()
    """Paths of jars. Empty means the Kafka connector of Spark's version, if a Kafka source needs it."""
    conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Sealing:
    """When to compact hours, and how long to keep replaced files."""

    file_bytes: Annotated[int, Interval(ge=1_048_576, le=1 << 40)] = 256 * 1024 * 1024
    """Size of a sealed hour's files."""
    hours_per_pass: Annotated[int, Interval(ge=1, le=1_000)] = 4
    """Hours sealed between two batches at most, so that sealing does not delay the stream."""
    old_files_s: Annotated[int, Interval(ge=0, le=30 * DAY_S)] = 3_600
    """How long to keep replaced files for queries that still read them."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of records and samples."""

    record_bytes: Annotated[int, Interval(ge=1_024, le=1 << 30)] = 8 * 1024 * 1024
    """Longer records are dead letters."""
    sample_rows: Annotated[int, Interval(ge=0, le=1_000_000)] = 2_000
    """Rows of a batch inspected to learn the kinds of values of new keys."""


@dataclass(frozen=True, slots=True)
class FlatSettings:
    """Everything that one flat table needs. The code that builds it calls ``check``."""

    database: str
    table: str
    location: str
    """The table's directory, a URI or an absolute path."""
    checkpoint: str
    """Spark's checkpoint and Tideline's own records of the stream; one per table, never shared."""
    source: KafkaSource | DirectorySource
    event_time: EventTime
    metastores: tuple[str, ...] = ()
    """Addresses of a Hive 4 metastore, ``thrift://host:port``; empty means Spark's own catalog."""
    keylog_url: str = field(default="", repr=False)
    """SQLAlchemy URL of the key log; empty means that only the rules' whitelist requests keys."""
    raw_table: str = ""
    """``db.table`` of the raw JSON, by which the key log and backfills know it; empty if there is none."""
    raw_column: str = "value"
    raw_location: str = ""
    """Directory of files of JSON lines that backfills read instead of ``raw_table``."""
    partition_columns: tuple[PartitionColumn, ...] = DEFAULT_PARTITION_COLUMNS
    dead_letters: str = ""
    """Directory of dead letters; empty means ``.dead-letters`` in the table's directory."""
    publishing: Publishing | None = None
    """None chooses by the scheme of ``location``."""
    trigger_s: Annotated[float, Interval(ge=0, le=DAY_S)] = 60.0
    """Time from one batch to the next; 0 starts the next batch at once."""
    compression: str = "zstd"
    """Compression of ORC files."""
    spark: SparkSettings = field(default_factory=SparkSettings)
    sealing: Sealing = field(default_factory=Sealing)
    limits: Limits = field(default_factory=Limits)
    rules: FlatRules = field(default_factory=FlatRules)
    """Rules for keys that become columns, their types, and the retention of partitions."""

    @property
    def name(self) -> str:
        """The name of the table for users, ``database.table``."""
        return f"{self.database}.{self.table}"

    @property
    def fingerprint(self) -> str:
        """A digest of name and location, for the names of locks and labels."""
        return hashlib.sha256(f"{self.name} {self.location}".encode()).hexdigest()[:16]

    @property
    def publishes_by(self) -> Publishing:
        """How to publish files: as configured; by default with renames if they are atomic, otherwise with a
        manifest.
        """
        if self.publishing is not None:
            return self.publishing
        return Publishing.RENAME if has_renames(self.location) else Publishing.MANIFEST

    @property
    def retention_s(self) -> int:
        """How long to keep an hour, measured back from the watermark."""
        return self.rules.retention_days * DAY_S

    @property
    def dead_letter_directory(self) -> str:
        """The directory of dead letters."""
        return self.dead_letters or f"{self.location.rstrip('/')}/.dead-letters"

    def check(self) -> None:
        """Raise ConfigError for the first invalid setting."""
        for name in (self.database, self.table, *(column.name for column in self.partition_columns)):
            if not _NAME.fullmatch(name):
                raise ConfigError("a name must consist of lower-case letters, digits and _", name=name)
        for setting, value in (("location", self.location), ("checkpoint", self.checkpoint)):
            if not (value.startswith("/") or ":/" in value):
                raise ConfigError(
                    "a location must be an absolute path or a URI", setting=setting, value=value
                )
        if _file_system(self.dead_letter_directory) != _file_system(self.location):
            raise ConfigError(
                "the dead letters must be on the same file system as the table",
                dead_letters=self.dead_letters,
                location=self.location,
                hint="Tideline moves files there, which is impossible between file systems.",
            )
        _check_partition_columns(self.partition_columns)
        for part in (self, self.source, self.event_time, self.sealing, self.limits):
            check_bounds(part)
        if self.event_time.grace_s < self.event_time.lateness_s:
            raise ConfigError("grace_s must be at least lateness_s")


def has_renames(location: str) -> bool:
    """Whether the file system of a path or URI has atomic renames, judged by its scheme."""
    scheme, colon, _ = location.partition(":/")
    return not colon or scheme in _RENAMING_SCHEMES


def _file_system(location: str) -> tuple[str, str]:
    scheme, _, rest = location.partition(":") if ":/" in location else ("file", "", "")
    return scheme, rest[2:].partition("/")[0] if rest.startswith("//") else ""


def _check_partition_columns(columns: tuple[PartitionColumn, ...]) -> None:
    if not columns or len({column.name for column in columns}) != len(columns):
        raise ConfigError("a flat table needs partition columns with different names")
    for column in columns:
        if column.type not in _PARTITION_TYPES:
            raise ConfigError(
                "the type of a partition column must be string or int", column=column.name, type=column.type
            )
    joined = "".join(column.pattern for column in columns)
    if not all(part in joined for part in ("%Y", "%m", "%d", "%H")) and "%s" not in joined:
        raise ConfigError(
            "the partition columns do not distinguish hours",
            patterns=[column.pattern for column in columns],
            hint="Their patterns must contain year, month, day and hour: %Y, %m, %d, %H.",
        )
