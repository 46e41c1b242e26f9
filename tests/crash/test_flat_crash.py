"""The driver of a flat table is killed at every step of a batch, a seal, a widening and a slot's reuse.

Each run brings new events, dies at one step, and the next run carries on from there, with more events, to the next step. After every
death a naive reader and Hive's own look at the table: no row twice, none of a finished batch missing, every value in its column or
in ``_rescued``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dev.stack.sql import Session
from handlers.failpoints import VARIABLE
from handlers.metastore import Metastore
from handlers.structs import Database
from tests.builders.flat_readers import check_rows, read_table
from tests.builders.flat_streams import Stream, rules
from tests.integration.conftest import source, stack


if TYPE_CHECKING:
    from collections.abc import Callable

    from dev.stack.endpoints import ClusterEndpoints

__all__ = ["source", "stack"]

pytestmark = pytest.mark.crash
HOUR_S = 3_600
KEYS = ["epoch", "uuid", "n", "action"]
BATCH = [
    "flat.evolve",
    "flat.evolved",
    "flat.planned",
    "flat.written",
    "flat.staged",
    "flat.decided",
    "flat.moved:1",
    "flat.moved:2",
    "flat.counted:1",
    "flat.published",
    "flat.noted",
    "flat.batch",
]
SEAL = ["flat.rewritten", "flat.switch", "flat.switched", "flat.replaced", "flat.deleted", "flat.kept:2"]
WIDENING = ["flat.hardening", "flat.rewritten", "flat.switched", "flat.flip", "flat.flipped"]


@dataclass
class Killed:
    """A table whose driver is killed again and again."""

    base: Path
    database: str
    metastore_uri: str
    sql: str
    keys: list[str] = field(default_factory=lambda: list(KEYS))
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
            "keys": self.keys,
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
            found = check_rows(read_table(metastore, self.database, "events_flat"), self.events, KEYS)
        assert self.finished <= found
        with Session.connect(self.sql) as session:
            table = f"{self.database}.events_flat"
            session.run("set hive.fetch.task.conversion=none")
            if "uuid" in [row[0].strip() for row in session.rows(f"describe {table}")]:
                count, distinct = session.rows(f"select count(*), count(distinct uuid) from {table}")[0]
                assert count == distinct == str(len(found))
        return found

    def ends_well(self) -> None:
        """Run to the end: everything is there, once."""
        assert self.run() == 0
        self.finished = self.check()
        assert self.finished == set(self.events)


@pytest.fixture
def table(source: ClusterEndpoints) -> Killed:  # noqa: F811 - a fixture asks for fixtures by their names
    database = f"crash_{uuid.uuid4().hex[:8]}"
    with closing(Metastore(source.metastore)) as metastore:
        metastore.create_database(Database(name=database))
    return Killed(Path(source.external) / database, database, source.metastore, source.sql)


def test_killed_at_every_step_of_a_batch_no_row_is_lost_or_doubled(table: Killed) -> None:
    for hour, step in enumerate(BATCH):
        # An integer that is wider every time, so that every batch alters the table first.
        table.land(range(hour, hour + 1), lambda n, hour=hour: n * 3**hour)  # type: ignore[misc]
        table.dies(step)
    table.ends_well()


def test_killed_at_every_step_of_a_seal_no_row_is_lost_or_doubled(table: Killed) -> None:
    table.land(range(2), lambda n: n)
    table.ends_well()
    for hour, step in enumerate(SEAL, start=2):
        table.land(range(hour, hour + 1), lambda n: n)
        table.dies(step)
    table.ends_well()


def test_killed_at_every_step_of_a_widening_values_stay_right(table: Killed) -> None:
    table.land(range(3), lambda n: n)
    table.ends_well()
    table.land(range(3, 4), lambda n: "007" if n == 7 else f"x{n}" if n % 2 else n)
    table.ends_well()
    for hour, step in enumerate(WIDENING, start=4):
        table.land(range(hour, hour + 1), lambda n: n)
        table.dies(step)
    table.ends_well()
    with closing(Metastore(table.metastore_uri)) as metastore:
        columns = {c.name: c.type for c in metastore.get_table(table.database, "events_flat").sd.cols or []}
    assert columns["n"] == "string"
