"""A release has one version, and the unit of systemd is valid."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml


ROOT = Path(__file__).parents[3]


def test_package_chart_and_image_have_one_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    chart = yaml.safe_load((ROOT / "helm/tideline/Chart.yaml").read_text())
    image = re.findall(r"(?m)^ARG VERSION=(.+)$", (ROOT / "Dockerfile").read_text())
    assert {chart["appVersion"], *image} == {version}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_the_unit_is_valid_and_starts_the_command(tmp_path: Path) -> None:
    unit = (ROOT / "packaging" / "tideline.service").read_text()
    (program,) = re.findall(r"(?m)^ExecStart=(\S+) run --config", unit)
    copy = tmp_path / "tideline.service"
    copy.write_text(unit.replace(program, "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert not [line for line in done.stderr.splitlines() if "tideline.service" in line], done.stderr
