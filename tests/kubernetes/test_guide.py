"""The guide to Kubernetes works as it stands on its page, on a real API server.

There are no nodes, so that no pod runs: commands inside of a pod are left out. ``helm`` is a script that
renders the chart, as ``tests/builders/components/chart.py`` does, and applies the objects.
"""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from dev.stack.servers.kubernetes import ApiServer
from tests.builders.components.page_runner import DOCS, PageRunner


KUBECTL = shutil.which("kubectl")
HELM = f"""#!{sys.executable}
import subprocess
import sys

import helm_python
import yaml

_, action, release, _, _, namespace, _, values = sys.argv
with helm_python.Chart.load("{DOCS.parent}/helm/tideline") as chart:
    files = chart.render(yaml.safe_load(open(values)), name=release, namespace=namespace)
objects = [text for name, text in files.items() if "/tests/" not in name and not name.endswith("NOTES.txt")]
subprocess.run(["kubectl", "apply", "-f", "-"], input="\\n---\\n".join(objects), text=True, check=True)
"""


@pytest.mark.skipif(KUBECTL is None, reason="kubectl is not installed")
def test_the_chart_is_installed_a_policy_retired_and_removed(api_server: ApiServer, tmp_path: Path) -> None:
    options = {
        "--server": api_server.url,
        "--token": api_server.token,
        "--certificate-authority": str(api_server.authority),
    }
    command = shlex.join([str(KUBECTL), *(f"{name}={value}" for name, value in options.items())])
    programs = {"kubectl": f'#!/bin/sh\nKUBECONFIG=/dev/null exec {command} "$@"\n', "helm": HELM}
    with PageRunner(tmp_path, {}, {}, programs) as runner:
        runner.run((DOCS / "guides/kubernetes.md").read_text())
