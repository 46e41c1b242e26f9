"""What ``tideline split run`` reports if Spark does not start: real Sparks with settings that fail in
different ways."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.builders.daemon.tideline_process import write_config
from tests.crash.programs.flat_program import SHORT_LIVED


pytestmark = pytest.mark.long
DEADLINE_S = 600.0


def run_once(directory: Path, conf: dict[str, str], **spark: Any) -> tuple[int, str]:
    """Run a driver in Spark's own catalog; return its exit code and output."""
    landing = directory / "landing"
    landing.mkdir(exist_ok=True)
    table = {
        "table": "default.events",
        "raw_table": "default.raw",
        "location": str(directory / "table"),
        "checkpoint": str(directory / "checkpoint"),
        "source": {"kind": "directory", "path": str(landing)},
        "event_time": {"key": "epoch"},
        "spark": {"driver_memory": "1g", "conf": {**SHORT_LIVED, **conf}, **spark},
    }
    path = write_config(directory, {"flat": {"events": table}})
    done = subprocess.run(
        [sys.executable, "-m", "daemon", "split", "run", "events", "--once", "--json", "-c", str(path)],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def stopped(output: str) -> dict[str, Any]:
    """Return the last event of a driver, which has the reason of its end."""
    events = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return dict(events[-1])


def test_a_missing_directory_of_event_logs_is_no_defect_and_passes_when_it_is_created(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    conf = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file:{logs}"}
    code, output = run_once(tmp_path, conf)
    assert code != 0
    assert "files-unavailable" in output
    assert "spark.eventLog.dir" in output
    assert "defect" not in output
    assert "Traceback" not in output
    assert stopped(output)["reason"] == "files-unavailable"
    logs.mkdir()
    code, output = run_once(tmp_path, conf)
    assert (code, stopped(output)["reason"]) == (0, "source exhausted")


def test_a_port_in_use_and_settings_that_spark_refuses_are_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        code, output = run_once(tmp_path, {"spark.driver.port": port, "spark.port.maxRetries": "0"})
    assert code != 0
    assert stopped(output)["reason"] == "transient"
    assert "spark.driver.port" in output
    for setting, value in {
        "spark.serializer": "no.such.Class",
        "spark.sql.shuffle.partitions": "many",
    }.items():
        code, output = run_once(tmp_path, {setting: value})
        assert code != 0
        assert stopped(output)["reason"] == "config"
        assert value in output or setting in output
        assert "defect" not in output


def test_a_catalog_whose_creation_was_interrupted_is_created_again(tmp_path: Path) -> None:
    left = tmp_path / "table" / ".metastore"
    for name in ("log", "seg0", "tmp"):
        (left / name).mkdir(parents=True)
    code, output = run_once(tmp_path, {})
    assert (code, stopped(output)["reason"]) == (0, "source exhausted"), output
    assert (left / "service.properties").exists()
