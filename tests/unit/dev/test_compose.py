"""The compose file: its configuration is valid, and its services agree with each other.

An engine that could start it needs a registry. ``tests/integration/docs/test_compose_settings.py`` runs its
metastores and its daemon as processes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from tests.builders.components.compose_file import COMPOSE, SERVICES, read_daemon_config
from tests.builders.daemon.tideline_process import COMMAND


PORTS: Final = {"kafka": 9092, "source-metastore": 9083, "target-metastore": 9083}


def test_the_configuration_of_the_daemon_has_no_problems(tmp_path: Path) -> None:
    config = tmp_path / "tideline.yaml"
    config.write_text(yaml.safe_dump(read_daemon_config()))
    done = subprocess.run(
        [*COMMAND, "config", "check", "-c", str(config)],
        env=os.environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def addresses(values: Any) -> Iterator[str]:
    """Yield all addresses of other services in the configuration."""
    yield from (
        uri
        for each in (*values["sources"].values(), *values["targets"].values())
        for uri in each["metastore"]
    )
    yield f"kafka://{values['kafka']['bootstrap']}"


def test_the_daemon_names_services_by_their_ports_and_waits_until_they_serve() -> None:
    for uri in addresses(read_daemon_config()):
        parts = urlsplit(uri)
        name = parts.hostname or ""
        assert parts.port == PORTS[name]
        assert SERVICES["tideline"]["depends_on"][name] == {"condition": "service_healthy"}
        assert "healthcheck" in SERVICES[name]


def test_the_daemon_sees_the_files_of_both_sides_by_the_paths_of_the_metastores() -> None:
    for name in ("source-metastore", "target-metastore", "tideline"):
        assert "warehouse:/warehouse" in SERVICES[name]["volumes"]


@pytest.mark.parametrize("name", SERVICES)
def test_a_service_is_reachable_only_from_this_machine(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", ()))


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_names_is_defined(name: str) -> None:
    service = SERVICES[name]
    assert {each["source"] for each in service.get("configs", ())} <= set(COMPOSE["configs"])
    assert {each.partition(":")[0] for each in service.get("volumes", ())} <= set(COMPOSE["volumes"])
    assert set(service.get("depends_on", ())) <= set(SERVICES)
