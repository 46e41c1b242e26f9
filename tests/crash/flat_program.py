"""A flat table's driver in a process of its own, to be killed: settings by argument, one run over what is there."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from streaming import commands
from streaming.progress import lines_to
from streaming.settings import KafkaSource, SparkSettings
from tests.builders.flat_streams import Stream, rules


def main() -> None:
    """``flat_program.py JSON``: base, database, metastore, keys, and either nothing or a topic."""
    given = json.loads(sys.argv[1])
    stream = Stream.of_directory(
        Path(given["base"]),
        given["database"],
        rules(*given["keys"], **given.get("rules", {})),
        given["metastore"],
    )
    jars = tuple(given.get("jars", ()))
    settings = replace(stream.settings, spark=SparkSettings(jars=jars))
    if "topic" in given:
        source = KafkaSource(
            given["bootstrap"], given["topic"], records_per_batch=given.get("records", 1_000)
        )
        settings = replace(settings, source=source)
    if given.get("command") == "seal":
        commands.seal(settings)
    else:
        commands.run(settings, lines_to(1), once=True)


if __name__ == "__main__":
    main()
