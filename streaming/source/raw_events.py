"""Where raw events come from: a Kafka topic, or a directory in which files of JSON lines appear.

Both give the same four columns, so that nothing behind them asks which it is: ``value`` STRING (the raw text, never NULL),
``size`` LONG (its bytes), ``arrival`` LONG (seconds since 1970) and ``part`` INT (the topic's partition; 0 for a directory).
The schema never changes, so the table may, between any two batches.

Back-pressure is the size of a batch: so many records, or so many files. Data that Kafka has deleted before it was read stops
the stream (``failOnDataLoss``) instead of being passed over.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from streaming.settings import DirectorySource, KafkaSource


if TYPE_CHECKING:
    from collections.abc import Mapping


def open_source(spark: Any, source: KafkaSource | DirectorySource) -> Any:
    """Return the streaming DataFrame of raw events."""
    if isinstance(source, KafkaSource):
        return _kafka(spark, source)
    reader = spark.readStream.format("text").option("maxFilesPerTrigger", source.files_per_batch)
    lines = reader.option("recursiveFileLookup", "true").load(source.path)
    return normalize_columns(lines, arrival="unix_seconds(_metadata.file_modification_time)", part="0")


def normalize_columns(raw: Any, *, value: str = "value", arrival: str, part: str = "0") -> Any:
    """Return a DataFrame of any origin with the four columns; the arguments are SQL expressions over ``raw``."""
    return raw.selectExpr(
        f"coalesce(cast({value} as string), '') as value",
        f"coalesce(octet_length({value}), 0L) as size",
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
    return options | {f"kafka.{name}": value for name, value in source.options.items()}


def parse_offsets(offset_line: str, topic: str) -> dict[int, int]:
    """Return the next offset of each partition, from the line that Spark writes for a Kafka source; none for another source."""
    try:
        found: Mapping[str, Any] = json.loads(offset_line)
    except ValueError:
        return {}
    partitions = found.get(topic)
    return {int(n): int(offset) for n, offset in partitions.items()} if isinstance(partitions, dict) else {}


def _kafka(spark: Any, source: KafkaSource) -> Any:
    reader = spark.readStream.format("kafka")
    for name, value in build_kafka_options(source).items():
        reader = reader.option(name, value)
    return normalize_columns(reader.load(), arrival="unix_seconds(timestamp)", part="partition")
