"""Reads raw events from a Kafka topic, or from a directory to which files of JSON lines are added.

Both sources give the same four columns, so that later steps need not distinguish them: ``value`` STRING (the
raw text, never NULL), ``size`` LONG (its length in bytes), ``arrival`` LONG (seconds since 1970) and ``part``
INT (the topic's partition; 0 for a directory). This schema never changes, so the table's columns may change
between any two batches.

The size of a batch is limited, in records or files, which gives back-pressure. If Kafka has deleted unread
data, the stream stops (``failOnDataLoss``) instead of skipping it. Transaction markers and aborted records
between two offsets are not lost data for Spark. The stream reads every file once, even an old one.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from state.errors import ConfigError, FilesUnavailable
from streaming.jvm_errors import read_causes, run_error
from streaming.settings import DirectorySource, KafkaSource


if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


_ALL_AGES: Final = "36500d"
"""Spark skips files that are older than the newest one by more than this, 7 days unless set. A moved file
keeps its time, so one from an archive would be lost, and after one file with a time in the future all others.
Spark's checkpoint holds the names of all files anyway.
"""
_PLAIN_DISK: Final = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Hadoop's local file system looks for a checksum next to every file, and cannot build the name of the
checksum of a file with a colon (``ChecksumFileSystem.getChecksumFile``). The one below it reads the same
paths without checksums.
"""
FILE_OPTIONS: Final = {"recursiveFileLookup": "true", **_PLAIN_DISK}
"""How Spark reads a directory of raw events and all directories within."""
_ISOLATION: Final = "isolation.level"
_COMMITTED: Final = "read_committed"
"""Setting for committed records only: by default, Kafka's Java client also returns records of open and
aborted transactions.
"""


def open_source(spark: SparkSession, source: KafkaSource | DirectorySource) -> DataFrame:
    """Return the streaming DataFrame of raw events."""
    if isinstance(source, KafkaSource):
        return _open_kafka(spark, source)
    reader = spark.readStream.format("text").option("maxFilesPerTrigger", source.files_per_batch)
    reader = reader.option("maxFileAge", _ALL_AGES).options(**FILE_OPTIONS)
    lines = _open_directory(reader, source.path)
    return normalize_columns(lines, arrival="unix_seconds(_metadata.file_modification_time)", part="0")


def normalize_columns(raw: DataFrame, *, arrival: str, part: str = "0") -> DataFrame:
    """Return the four columns of a DataFrame from any source, given as SQL expressions over ``raw``."""
    return raw.selectExpr(
        "coalesce(cast(value as string), '') as value",
        "coalesce(octet_length(value), 0L) as size",
        f"cast({arrival} as bigint) as arrival",
        f"cast({part} as int) as part",
    )


def build_kafka_options(source: KafkaSource) -> dict[str, str]:
    """Return the options of Spark's Kafka source."""
    options = {
        "kafka.bootstrap.servers": source.bootstrap,
        "subscribe": source.topic,
        "startingOffsets": source.starting_offsets,
        "maxOffsetsPerTrigger": str(source.records_per_batch),
        "failOnDataLoss": "true",
        "groupIdPrefix": "tideline-flat",
    }
    if source.records_to_wait_for:
        options["minOffsetsPerTrigger"] = str(source.records_to_wait_for)
        options["maxTriggerDelay"] = f"{source.wait_s:g}s"
    client = {_ISOLATION: _COMMITTED, **source.options}
    return options | {f"kafka.{name}": value for name, value in client.items()}


def reads_committed(source: KafkaSource) -> bool:
    """Whether the stream omits records of open and aborted transactions."""
    return source.options.get(_ISOLATION, _COMMITTED) == _COMMITTED


def parse_offsets(offset_line: str, topic: str) -> dict[int, int]:
    """Return the next offset of each partition from the line that Spark records for a Kafka source; empty for
    other sources.
    """
    try:
        topics: Mapping[str, Any] = json.loads(offset_line)
    except ValueError:
        return {}
    partitions = topics.get(topic)
    return {int(n): int(offset) for n, offset in partitions.items()} if isinstance(partitions, dict) else {}


def _open_directory(reader: DataStreamReader, path: str) -> DataFrame:
    from pyspark.errors import AnalysisException

    try:
        return reader.load(path)
    except AnalysisException as error:
        raise FilesUnavailable(
            "the directory of raw events cannot be read",
            path=path,
            reason=str(error)[:300],
            hint="If it is missing, create it, or correct flat.NAME.source.path.",
        ) from error


def _open_kafka(spark: SparkSession, source: KafkaSource) -> DataFrame:
    from pyspark.errors import PySparkException

    reader = spark.readStream.format("kafka")
    for name, value in build_kafka_options(source).items():
        reader = reader.option(name, value)
    try:
        records = reader.load()
    except PySparkException as error:
        raise run_error(read_causes(error)) or ConfigError(
            "Spark refuses the settings of the topic",
            topic=source.topic,
            reason=str(error)[:300],
            hint="Correct flat.NAME.source.options, and the jars of Spark's Kafka source (spark.jars).",
        ) from error
    return normalize_columns(records, arrival="unix_seconds(timestamp)", part="partition")
