"""The settings of a flat table's stream: where raw events come from, when they happened, and what their driver may use."""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from daemon.config.fields import Bootstrap, KeyText, Options, Place, Secret, Topic, key_named
from daemon.config.section import Section, refused
from state.columns.paths import KeyPath
from streaming.settings import (
    DAY_S,
    DirectorySource,
    EpochUnit,
    EventTime,
    KafkaSource,
    LatePolicy,
    Limits,
    Sealing,
    SparkSettings,
)


_MEMORY: Final = re.compile(r"[1-9]\d{0,5}[kmgt]", re.ASCII)
_MASTER: Final = re.compile(r"local(\[(\d{1,4}|\*)(,\d{1,3})?\])?|yarn|k8s://\S+|spark://\S+", re.ASCII)
_OFFSETS: Final = re.compile(r"earliest|latest|\{.*\}", re.DOTALL)


def _check_memory(text: str) -> str:
    if not _MEMORY.fullmatch(text):
        raise refused("is no size of memory: a whole number and k, m, g or t is wanted, such as 2g")
    return text


def _check_master(text: str) -> str:
    if not _MASTER.fullmatch(text):
        raise refused("is no master of Spark: local[N], yarn, k8s://HOST:PORT or spark://HOST:PORT is wanted")
    return text


def _check_offsets(text: str) -> str:
    if not _OFFSETS.fullmatch(text):
        raise refused("is no beginning: earliest, latest or Spark's JSON of offsets is wanted")
    return text


Memory = Annotated[str, AfterValidator(_check_memory)]
_KAFKA: Final = KafkaSource("", "")
_TIME: Final = EventTime(KeyPath.of_dotted("epoch"))
_SPARK: Final = SparkSettings()
_SEALING: Final = Sealing()
_LIMITS: Final = Limits()


class FlatSourceConfig(Section):
    """Where raw events come from: a topic with one JSON document per record, or a directory of files of JSON lines."""

    kind: Literal["kafka", "directory"] = Field(description="'kafka' or 'directory'.")
    topic: Topic | None = Field(default=None, description="Topic of the events; only for 'kafka'.")
    bootstrap: Bootstrap | None = Field(
        default=None,
        description="Brokers of the topic; not given: those of 'kafka', with its options and secrets. Only for 'kafka'.",
    )
    options: Options = Field(
        default={},
        description="Settings of the Java client by its own names (ssl.truststore.location); they win over those made from 'kafka'.",
    )
    secrets: dict[str, Secret] = Field(
        default={},
        description="Settings of the Java client that are secret, such as sasl.jaas.config: {file: PATH} or {env: NAME}.",
    )
    starting_offsets: Annotated[str, AfterValidator(_check_offsets)] = Field(
        default=_KAFKA.starting_offsets,
        description="Where a new checkpoint begins: 'earliest', 'latest' or Spark's JSON of offsets. Only for 'kafka'.",
    )
    records_per_batch: int = Field(
        default=_KAFKA.records_per_batch,
        ge=1,
        le=100_000_000,
        description="Most records of a batch. Only for 'kafka'.",
    )
    records_to_wait_for: int = Field(
        default=0,
        ge=0,
        le=100_000_000,
        description="A batch begins when so many records are there or wait_s is over; 0 begins at once. Only for 'kafka'.",
    )
    wait_s: float = Field(
        default=_KAFKA.wait_s, gt=0, le=86_400, description="Longest wait for records_to_wait_for."
    )
    path: Place | None = Field(
        default=None,
        description="Directory in which files appear, each whole at once (by rename); only for 'directory'.",
    )
    files_per_batch: int = Field(
        default=100, ge=1, le=100_000, description="Most files of a batch. Only for 'directory'."
    )

    @model_validator(mode="after")
    def _fit(self) -> Self:
        if (self.topic if self.kind == "kafka" else self.path) is None:
            raise refused(f"is of kind {self.kind} and has no {'topic' if self.kind == 'kafka' else 'path'}")
        return self

    def value(self, bootstrap: str, options: dict[str, str]) -> KafkaSource | DirectorySource:
        """Return the driver's form; ``bootstrap`` and ``options`` (for a Java client) are used where none are given here."""
        if self.path is not None and self.kind == "directory":
            return DirectorySource(self.path, self.files_per_batch)
        own = {name: _java(value) for name, value in self.options.items()}
        secrets = {name: secret.get_secret_value() for name, secret in self.secrets.items()}
        return KafkaSource(
            bootstrap=self.bootstrap or bootstrap,
            topic=self.topic or "",
            starting_offsets=self.starting_offsets,
            records_per_batch=self.records_per_batch,
            records_to_wait_for=self.records_to_wait_for,
            wait_s=self.wait_s,
            options=({} if self.bootstrap else options) | own | secrets,
        )


def _java(value: str | float | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


class EventTimeConfig(Section):
    """Which hour an event belongs to."""

    key: KeyText = Field(description="Key of the event's time.")
    unit: Literal["s", "ms", "iso"] = Field(
        default=_TIME.unit.value,
        description="'s' or 'ms' since 1970, or 'iso' for texts such as 2016-04-18T21:05:00Z.",
    )
    earliest_s: int = Field(
        default=_TIME.earliest_s,
        ge=0,
        description="Time since 1970 before which no event can have happened (the year 2000).",
    )
    future_s: int = Field(
        default=_TIME.future_s,
        ge=0,
        le=7 * DAY_S,
        description="How far ahead of the clock an event may be; others are dead letters.",
    )
    lateness_s: int = Field(
        default=_TIME.lateness_s,
        ge=0,
        le=30 * DAY_S,
        description="An hour is sealed when events are this far past its end.",
    )
    grace_s: int = Field(
        default=_TIME.grace_s,
        ge=0,
        le=365 * DAY_S,
        description="Events later than this are too late; at least lateness_s.",
    )
    too_late: Literal["hour", "dead-letter"] = Field(
        default=_TIME.too_late.value,
        description="Where too late events go: 'dead-letter', or to their 'hour', which is then sealed anew.",
    )
    idle_s: int = Field(
        default=_TIME.idle_s,
        ge=1,
        le=30 * DAY_S,
        description="A partition of the topic that is silent for so long holds nothing back any more.",
    )

    def value(self) -> EventTime:
        """Return the driver's form."""
        values = self.model_dump(exclude={"key", "unit", "too_late"})
        unit, too_late = EpochUnit(self.unit), LatePolicy(self.too_late)
        return EventTime(key_named(self.key), unit, too_late=too_late, **values)


class SparkConfig(Section):
    """The Spark driver, which is a process beside the daemon, and its executors."""

    master: Annotated[str, AfterValidator(_check_master)] = Field(
        default=_SPARK.master,
        description="'local[N]' works in the driver itself with N cores; 'k8s://…', 'yarn' or 'spark://…' has executors.",
    )
    driver_memory: Memory = Field(
        default=_SPARK.driver_memory,
        description="Heap of the driver's JVM; its process takes about 0.7g more.",
    )
    executor_memory: Memory | None = Field(default=None, description="Heap of an executor's JVM.")
    executor_cores: int | None = Field(default=None, ge=1, le=256, description="Cores of an executor.")
    executors: int | None = Field(
        default=None,
        ge=1,
        le=10_000,
        description="How many executors, on 'spark://' of one core each where executor_cores is not given; not given: as Spark "
        "decides, which on 'spark://' is all that there is.",
    )
    jars: list[Annotated[str, Field(min_length=1, max_length=4_096)]] = Field(
        default=[],
        max_length=64,
        description="Jars for Spark, such as its Kafka connector where the image has none.",
    )
    conf: Options = Field(
        default={}, description="Further settings of Spark by their own names; they win over all others."
    )

    def value(self) -> SparkSettings:
        """Return the driver's form."""
        bounds = {
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": self.executor_cores,
            "spark.executor.instances": self.executors,
        }
        if self.executors is not None and self.master.startswith("spark://"):
            # A standalone cluster knows no number of executors: it starts them until their cores are as many.
            cores = self.executor_cores or 1
            bounds |= {"spark.executor.cores": cores, "spark.cores.max": self.executors * cores}
        given = {name: str(value) for name, value in bounds.items() if value is not None}
        own = {name: _java(value) for name, value in self.conf.items()}
        return SparkSettings(self.master, self.driver_memory, tuple(self.jars), given | own)


class SealingConfig(Section):
    """When hours are compacted, and what becomes of the files that they replace."""

    file_bytes: int = Field(
        default=_SEALING.file_bytes, ge=1_048_576, le=1 << 40, description="Size of a sealed hour's files."
    )
    hours_per_pass: int = Field(
        default=_SEALING.hours_per_pass,
        ge=1,
        le=1_000,
        description="Hours sealed between two batches at most.",
    )
    old_files_s: int = Field(
        default=_SEALING.old_files_s,
        ge=0,
        le=30 * DAY_S,
        description="How long replaced files stay for queries that still read them.",
    )

    def value(self) -> Sealing:
        """Return the driver's form."""
        return Sealing(**self.model_dump())


class FlatLimitsConfig(Section):
    """What one record may be."""

    record_bytes: int = Field(
        default=_LIMITS.record_bytes,
        ge=1_024,
        le=1 << 30,
        description="Longer records are dead letters.",
    )
    sample_rows: int = Field(
        default=_LIMITS.sample_rows,
        ge=0,
        le=1_000_000,
        description="Rows of a batch that are looked at one by one to learn what is behind new keys.",
    )

    def value(self) -> Limits:
        """Return the driver's form."""
        return Limits(**self.model_dump())
