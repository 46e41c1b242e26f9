"""``tideline doctor``: one page, complete even if nothing answers, and without secrets."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from daemon.service.command_line import call
from tests.builders.daemon.assembly import app_of
from tests.builders.daemon.http_client import HOST, served
from tests.builders.daemon.loops import daemon_status


if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_the_page_is_complete_if_no_server_answers_and_has_no_secret(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "password").write_text("hunter2hunter2")
    config = tmp_path / "tideline.yaml"
    config.write_text(
        f"state: {{dir: {tmp_path}}}\n"
        "sources: {lake: {metastore: ['thrift://127.0.0.1:1'], topic: t.lake, read_roots: [], relay: "
        "{enabled: false}}}\n"
        "kafka: {bootstrap: '127.0.0.1:1', options: {security.protocol: sasl_plaintext}, secrets: "
        f"{{sasl.password: {{file: {tmp_path}/password}}}}}}\n"
    )
    assert call(["doctor", "-c", str(config), "-o", "json"]) == 1
    printed = capsys.readouterr().out
    assert "hunter2" not in printed
    findings = {each["name"]: each for each in json.loads(printed)}
    assert {"tideline", "python", "machine", "libraries", "time", "configuration", "disk", "daemon"} <= set(
        findings
    )
    assert findings["daemon"]["state"] == "warning"
    assert "Connection refused" in printed


def test_an_unreadable_configuration_is_a_line_of_the_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(["doctor", "-c", str(tmp_path / "absent.yaml")]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("configuration") and "failed" in line for line in lines)


def test_a_daemon_elsewhere_is_examined_without_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    status = daemon_status(state="running", time_s=time.time())
    with served(app_of(status=lambda: status, stuck=list)) as server:
        call(["doctor", "--url", f"http://{HOST}:{server.port}", "-o", "json"])
    findings = {each["name"]: each for each in json.loads(capsys.readouterr().out)}
    assert {"tideline", "daemon", "clocks"} <= set(findings)
    assert "configuration" not in findings
    assert findings["clocks"]["state"] == "ok"
    assert call(["doctor", "--url", "http://127.0.0.1:1", "-o", "json"]) == 1
    assert "does not answer" in capsys.readouterr().out
