"""Replays in a process of their own, which is killed at a chosen step and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dev.stack.endpoints import ClusterEndpoints
from handlers.failpoints import VARIABLE
from state.store.sqlite import SqliteStore
from tests.builders.components.orphaned_calls import wait_for_orphaned_calls
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import Written


PROJECT = Path(__file__).parents[3]
RUN_TIMEOUT_S = 180.0
DATABASE_FAULT = "details:PreparedStatementCallback"
"""What a ServerFault says if a statement of the metastore failed in its database."""

STEPS = (
    "replay.decoded",
    "replay.before-effect",
    "replay.after-effect",
    "replay.before-position",
    "replay.after-position",
    "replay.before-open",
    "replay.after-open",
    "replay.after-allocate",
    "replay.before-copies",
    "replay.before-end-record",
    "replay.after-end-record",
    "replay.before-last-id",
    "replay.after-last-id",
    "replay.after-copies",
    "replay.before-commit",
    "replay.after-commit",
    "replay.before-proof",
    "replay.after-proof",
    "replay.before-abort",
    "replay.after-abort",
    "replay.before-rename",
    "replay.after-rename",
)
"""Every failpoint of replay, in the order in which the small workload first reaches them."""

COMMIT_PATH = STEPS[STEPS.index("replay.before-open") : STEPS.index("replay.before-rename")]
"""The failpoints between the opening of a transaction and its end."""


BOOTSTRAP_STEPS = (
    "bootstrap.after-databases",
    "bootstrap.after-begin",
    "load.after-snapshot",
    "load.after-create",
    "load.after-partitions",
    "load.after-files",
    "load.after-result",
    "load.after-write-ids",
    "load.before-finish",
    "load.after-finish",
    "bootstrap.before-record",
    "bootstrap.after-record",
    "bootstrap.before-finish",
    "bootstrap.after-last-id",
    "bootstrap.after-finish",
)
"""Every failpoint of a bootstrap, in the order in which it first reaches them."""


def killed_replica(settings: dict[str, Any]) -> Replica:
    """Return the replica of a program's SETTINGS (``KilledReplay.run``), with its state as the last kill left
    it."""
    return build_replica(
        settings["source"],
        settings["target"],
        db=settings["db"],
        target_db=settings["target_db"],
        roots=settings["roots"],
        store=SqliteStore(Path(settings["state"]), schema_version=1),
        start=False,
        files=settings["files"],
        overlaps=settings["overlaps"],
    )


@dataclass(frozen=True)
class KilledReplay:
    """One replica of the small workload, run by processes that are killed."""

    written: Written
    source: ClusterEndpoints
    target: ClusterEndpoints
    state: Path
    target_db: str
    program: str = "tests.crash.programs.replay_program"
    files: Mapping[str, Mapping[str, object]] | None = None
    """The options of file systems."""
    overlaps: bool = True

    @staticmethod
    def of(
        written: Written,
        source: ClusterEndpoints,
        target: ClusterEndpoints,
        directory: Path,
        program: str = "tests.crash.programs.replay_program",
        files: Mapping[str, Mapping[str, object]] | None = None,
        *,
        overlaps: bool = True,
    ) -> KilledReplay:
        target_db = f"{written.db}_{uuid.uuid4().hex[:6]}"
        state = directory / f"{target_db}.db"
        return KilledReplay(written, source, target, state, target_db, program, files, overlaps)

    @property
    def roots(self) -> list[str]:
        return [self.source.warehouse, self.source.external, self.source.cmroot]

    def run(self, failpoint: str | None = None) -> bool:
        """Run once; return whether it was killed at ``failpoint``. Any other end except success fails the
        test."""
        settings = {
            "source": self.source.metastore,
            "target": self.target.metastore,
            "db": self.written.db,
            "target_db": self.target_db,
            "state": str(self.state),
            "roots": self.roots,
            "files": self.files,
            "overlaps": self.overlaps,
            "before": self.written.before,
            "upto": self.written.last,
        }
        done = self._run_once(settings, failpoint)
        if done.returncode == 1 and DATABASE_FAULT in done.stderr:
            # Hive's own housekeeping and a call sometimes deadlock in Derby. The daemon tries again, as here.
            done = self._run_once(settings, failpoint)
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-3000:]
        wait_for_orphaned_calls(self.source.metastore, self.target.metastore)
        return done.returncode != 0

    def _run_once(
        self, settings: Mapping[str, object], failpoint: str | None
    ) -> subprocess.CompletedProcess[str]:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        return subprocess.run(
            [sys.executable, "-m", self.program, json.dumps(settings)],
            cwd=PROJECT,
            env=environment | ({VARIABLE: failpoint} if failpoint else {}),
            capture_output=True,
            text=True,
            timeout=RUN_TIMEOUT_S,
            check=False,
        )

    def differences(self, *, files: bool = True) -> list[str]:
        """Compare source and target; return the differences and the quarantined tables."""
        store = SqliteStore(self.state, schema_version=1)
        replica = build_replica(
            self.source.metastore,
            self.target.metastore,
            db=self.written.db,
            target_db=self.target_db,
            roots=self.roots,
            store=store,
            start=False,
            files=self.files,
        )
        with closing(replica.projection):
            replica.projection.open()
            replica.context.tables.write_ids.check()
            quarantined = [f"quarantined: {failure}" for failure in replica.projection.failures()]
            return replica.differences(files=files) + quarantined
