"""Two instances replicate into one target: the one that was stopped and replaced writes nothing when it
continues."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from dev.stack.endpoints import ClusterEndpoints
from tests.builders.replication.replay_kills import PROJECT, RUN_TIMEOUT_S
from tests.builders.replication.replica import build_replica
from tests.builders.replication.small_workload import Written
from tests.integration.replication.test_duplicates import state_of_target


STOPS_ITSELF: Final = """
import importlib, os, signal, sys
stopped = importlib.import_module("handlers.replication.{module}")
passed = []
def stop(name):
    if name == "{failpoint}" and not passed:
        passed.append(name)
        os.kill(os.getpid(), signal.SIGSTOP)
stopped.failpoint = stop
from tests.crash.programs.replay_program import main
main(sys.argv[1])
"""


@pytest.fixture
def target_db(written: Written) -> str:
    return f"{written.db}_{uuid.uuid4().hex[:6]}"


@pytest.mark.parametrize(
    ("module", "failpoint"),
    [
        ("transactions.transaction_replay", "replay.before-commit"),
        ("transactions.copies.transaction_files", "replay.before-copies"),
        ("dispatch", "replay.before-rename"),
    ],
)
def test_an_instance_that_was_stopped_and_replaced_writes_nothing_when_it_continues(
    written: Written,
    source: ClusterEndpoints,
    target: ClusterEndpoints,
    target_db: str,
    tmp_path: Path,
    module: str,
    failpoint: str,
) -> None:
    roots = [source.warehouse, source.external, source.cmroot]
    settings = {
        "source": source.metastore,
        "target": target.metastore,
        "db": written.db,
        "target_db": target_db,
        "state": str(tmp_path / "first.db"),
        "files": None,
        "overlaps": True,
        "roots": roots,
        "before": written.before,
        "upto": written.last,
    }
    program = STOPS_ITSELF.format(module=module, failpoint=failpoint)
    first = subprocess.Popen(
        [sys.executable, "-c", program, json.dumps(settings)],
        cwd=PROJECT,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _, status = os.waitpid(first.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status), first.stderr.read() if first.stderr else ""
        second = build_replica(
            source.metastore,
            target.metastore,
            db=written.db,
            target_db=target_db,
            roots=roots,
            start=written.before,
        )
        with closing(second.projection):
            second.follow(upto=written.last)
            assert second.quarantined() == {}
            assert second.differences() == []
            before = state_of_target(second)
            first.send_signal(signal.SIGCONT)
            _, problem = first.communicate(timeout=RUN_TIMEOUT_S)
            assert first.returncode not in {0, None}
            assert "[fenced] another instance took over the target database" in problem
            assert f"pid {os.getpid()}" in problem, "it names the instance that holds the target"
            assert state_of_target(second) == before
            second.projection.apply([])
    finally:
        first.kill()
        first.communicate()
