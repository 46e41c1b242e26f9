"""A flat table whose driver is killed again and again, and what two readers see of it after every death."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dev.stack.sql import Session
from handlers.failpoints import VARIABLE
from handlers.metastore import Metastore
from tests.builders.flat_readers import check_rows, read_table
from tests.builders.flat_streams import Stream, rules


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


HOUR_S = 3_600
KEYS = ("epoch", "uuid", "n", "action")


@dataclass
class Killed:
    """A table whose driver is killed again and again."""

    base: Path
    database: str
    metastore_uri: str
    sql: str
    keys: Sequence[str] = KEYS
    rules: dict[str, Any] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    files: int = 0
    finished: set[str] = field(default_factory=set)

    def land(self, hours: range, value: Callable[[int], Any], **more: Any) -> None:
        """Send events of these hours; each hour's are a file, and a file is a batch."""
        first = int(time.time()) // HOUR_S * HOUR_S - 20 * HOUR_S
        stream = Stream.of_directory(self.base, self.database, rules(*self.keys))
        for hour in hours:
            rows = [
                {
                    "epoch": first + hour * HOUR_S + n,
                    "uuid": f"{self.files}-{hour}-{n}",
                    "n": value(n),
                    "action": f"a{n % 3}",
                    **more,
                }
                for n in range(20)
            ]
            # One row of the hour before, so that a batch has two hours to publish to.
            rows[0]["epoch"] -= HOUR_S
            self.events |= {row["uuid"]: row for row in rows}
            stream.land(f"{self.files:04}", rows)
            self.files += 1

    def run(self, failpoint: str = "") -> int:
        """Run the driver over what is there; return its exit code."""
        given = {
            "base": str(self.base),
            "database": self.database,
            "metastore": self.metastore_uri,
            "keys": list(self.keys),
            "rules": self.rules,
        }
        environment = {**os.environ, VARIABLE: failpoint} if failpoint else {**os.environ}
        command = [sys.executable, "-m", "tests.crash.flat_program", json.dumps(given)]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=600, check=False
        )
        assert done.returncode in {0, -signal.SIGKILL}, done.stdout[-2_000:] + done.stderr[-4_000:]
        return done.returncode

    def dies(self, failpoint: str) -> None:
        """Run and die there; then look at the table."""
        assert self.run(failpoint) == -signal.SIGKILL, f"{failpoint} was not reached"
        self.check()

    def check(self) -> set[str]:
        """Look at the table as it stands, with and without an engine."""
        with closing(Metastore(self.metastore_uri)) as metastore:
            rows = read_table(metastore, self.database, "events_flat")
        found = check_rows(rows, self.events, self.keys)
        assert self.finished <= found
        with Session.connect(self.sql) as session:
            session.run("set hive.fetch.task.conversion=none")
            table = f"{self.database}.events_flat"
            columns = {row[0].strip() for row in session.rows(f"describe {table}")}
            if {"uuid", "n"} <= columns:
                counted = session.rows(f"select count(*), count(distinct uuid), count(n) from {table}")
                values = sum(row["n"] is not None for row in rows)
                assert counted == [(str(len(found)), str(len(found)), str(values))]
                sevens = sum(str(row["n"]) == "7" for row in rows)
                assert session.rows(f"select count(*) from {table} where n = '7'") == [(str(sevens),)]
        return found

    def expires(self) -> None:
        """Forget the events of hours that the table has dropped."""
        with closing(Metastore(self.metastore_uri)) as metastore:
            rows = read_table(metastore, self.database, "events_flat")
        kept = {row["uuid"] for row in rows}
        self.events = {uuid: event for uuid, event in self.events.items() if uuid in kept}
        self.finished &= kept

    def ends_well(self) -> None:
        """Run to the end: everything is there, once."""
        assert self.run() == 0
        self.finished = self.check()
        assert self.finished == set(self.events)
