"""A flat table's driver in a process to be killed: settings as an argument, one run until the source is
exhausted."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from dev.stack.downloads.jars import locate_jars, read_lock
from streaming.driver import commands
from streaming.driver.progress import write_lines_to
from streaming.settings import DirectorySource, KafkaSource, Limits, SparkSettings
from tests.builders.flat.kills.hostile_rows import RECORD_BYTES
from tests.builders.flat.streams import Stream, key, rules


SHORT_LIVED = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Disables the optimizing compiler, which does not pay off in a JVM that runs for seconds: runs take half the
time."""


def main() -> None:
    """``flat_program.py JSON``: base, database, metastore, keys, and a topic or a landing directory; with
    ``follow`` it does not end."""
    given = json.loads(sys.argv[1])
    stream = Stream.of_directory(
        Path(given["base"]),
        given["database"],
        rules(*given["keys"], **given.get("rules", {})),
        given["metastore"],
        **given.get("elsewhere", {}),
        spark=SparkSettings(conf=SHORT_LIVED | given.get("conf", {})),
        limits=Limits(record_bytes=RECORD_BYTES),
    )
    settings = stream.settings
    if "topic" in given:
        jars = map(str, locate_jars(read_lock("spark-kafka")))
        settings = replace(settings, spark=replace(settings.spark, jars=tuple(jars)))
        source = KafkaSource(
            given["bootstrap"], given["topic"], records_per_batch=given.get("records", 1_000)
        )
        settings = replace(settings, source=source)
    elif "landing" in given:
        settings = replace(settings, source=DirectorySource(given["landing"], files_per_batch=1))
    if given.get("command") == "seal":
        commands.seal(settings)
    elif given.get("narrows"):
        commands.narrow(settings, key(given["narrows"]))
    else:
        commands.run(settings, write_lines_to(1), once=not given.get("follow"))


if __name__ == "__main__":
    main()
