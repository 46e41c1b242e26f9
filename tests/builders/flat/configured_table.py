"""A flat table whose driver is started by the product's own commands with a configuration file."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon.process.child import Child
from state.columns.paths import KeyPath
from tests.builders.daemon.tideline_process import write_config
from tests.builders.flat.feeds import TopicFeed
from tests.builders.flat.kills.driver_kills import TABLE, Killed
from tests.builders.flat.kills.hostile_rows import RECORD_BYTES
from tests.crash.programs.flat_program import SHORT_LIVED


DEADLINE_S = 600.0
"""How long a failing test waits; generous, because a busy machine must not fail a test."""
JAVA = SHORT_LIVED["spark.driver.extraJavaOptions"]
NAME = "events"
"""The name of the table in the configuration."""


@dataclass
class ConfiguredTable(Killed):
    """A table with a configuration in ``directory``; ``spark`` are settings of its section ``spark``."""

    directory: Path = Path()
    spark: dict[str, Any] = field(default_factory=dict)
    trigger_s: float = 0.0

    def run(self, failpoint: str = "", *, follow: bool = False) -> int:
        """Run the product's command until the source is exhausted."""
        assert not failpoint
        assert not follow
        return self.complete("run", "--once")

    def complete(self, *words: str) -> int:
        """Run a command to its end; return its exit code."""
        done = subprocess.run(
            self.command(*words), capture_output=True, text=True, timeout=DEADLINE_S, check=False
        )
        assert done.returncode == 0, done.stdout[-2_000:] + done.stderr[-4_000:]
        return done.returncode

    def command(self, word: str, *options: str) -> list[str]:
        """Return a command after writing its configuration for the current table."""
        path = self.configure()
        return [sys.executable, "-m", "daemon", "split", word, NAME, *options, "-c", str(path)]

    def configure(self) -> Path:
        """Write the configuration for the current table and return its path."""
        return write_config(self.directory, self.configuration())

    def configuration(self) -> dict[str, Any]:
        """Return the configuration; Spark's event log is on the local disk."""
        events = self.directory / "spark-events"
        events.mkdir(exist_ok=True)
        conf = {
            "spark.driver.extraJavaOptions": JAVA,
            "spark.executor.extraJavaOptions": JAVA,
            "spark.eventLog.enabled": True,
            "spark.eventLog.dir": f"file:{events}",
            "spark.eventLog.compress": False,
            "spark.eventLog.rolling.enabled": False,
            **self.conf,
        }
        return {
            "targets": {"lake": {"metastore": [self.metastore_uri]}},
            **self._kafka(),
            "flat": {
                NAME: {
                    "table": f"{self.database}.{TABLE}",
                    "raw_table": f"{self.database}.events",
                    "raw_files": f"file:{self.base}/raw",
                    "cluster": "lake",
                    "location": f"file:{self.base}/table",
                    **self.elsewhere,
                    "source": self._source(),
                    "event_time": {"key": "epoch", "lateness_s": 0},
                    "rules": {
                        "whitelist": [str(KeyPath((member,))) for member in self.keys],
                        "misfits_min": 1,
                        "promotion_delay_hours": 0,
                        **self.rules,
                    },
                    "sealing": {"old_files_s": 0},
                    "limits": {"record_bytes": RECORD_BYTES},
                    "trigger_s": self.trigger_s,
                    "spark": {"driver_memory": "1g", **self.spark, "conf": conf},
                }
            },
        }

    def _kafka(self) -> dict[str, Any]:
        return {"kafka": {"bootstrap": self.source.bootstrap}} if isinstance(self.source, TopicFeed) else {}

    def _source(self) -> dict[str, Any]:
        feed = self.source
        if isinstance(feed, TopicFeed):
            return {"kind": "kafka", "topic": feed.topic, "records_per_batch": feed.records}
        return {"kind": "directory", "path": feed.settings["landing"], "files_per_batch": 1}

    def spark_events(self, kind: str) -> list[dict[str, Any]]:
        """Return the events of one kind that Spark has logged in all runs."""
        mark = f'"Event":"SparkListener{kind}"'
        return [
            json.loads(line)
            for log in (self.directory / "spark-events").iterdir()
            for line in log.read_text(errors="replace").splitlines()
            if mark in line and line.endswith("}")
        ]

    def tasks_lost(self) -> list[str]:
        """Return why tasks failed in all runs."""
        reasons = [each["Task End Reason"]["Reason"] for each in self.spark_events("TaskEnd")]
        return [reason for reason in reasons if reason != "Success"]


def listen(
    driver: Child,
    until: Callable[[Mapping[str, Any]], bool] | None,
    now: Callable[[], bool] | None = None,
) -> None:
    """Read the driver's events until one arrives, or ``now`` returns true."""
    deadline, heard = time.monotonic() + DEADLINE_S, []
    while time.monotonic() < deadline and driver.exit_code is None:
        events, output = driver.listen(0.02)
        heard += output
        if (now is not None and now()) or (until is not None and any(map(until, events))):
            return
    raise AssertionError("\n".join(heard[-40:]))


def has_caught_up(event: Mapping[str, Any]) -> bool:
    """Whether a batch of a topic has left nothing unread."""
    return bool(event["event"] == "progress" and sum(event.get("lag", {}).values()) == 0)
