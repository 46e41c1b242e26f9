"""The containers of a YARN on this machine."""

from __future__ import annotations

import json
import os
import signal
import urllib.request
from typing import Final

from dev.stack.servers.yarn import Yarn
from tests.builders.components.processes import all_commands


TIMEOUT_S: Final = 30.0


def executors(yarn: Yarn) -> list[int]:
    """Return the JVMs of the containers with executors."""
    return _find_containers(yarn, "YarnCoarseGrainedExecutorBackend")


def _find_containers(yarn: Yarn, program: str) -> list[int]:
    return [
        pid
        for pid, command in all_commands()
        if program in command and str(yarn.directory) in command and not command.startswith("/bin/bash")
    ]


def kill_an_executor(yarn: Yarn) -> int:
    """Kill the JVM of an executor, as a node does that runs out of memory; return its process."""
    pid = executors(yarn)[0]
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_the_application_master(yarn: Yarn) -> int:
    """Kill the container that requests the others for the driver; return its process."""
    (pid,) = _find_containers(yarn, "ExecutorLauncher")
    os.kill(pid, signal.SIGKILL)
    return pid


def kill_the_application(yarn: Yarn) -> int:
    """Kill the application that runs, as an administrator does; return the number of running applications,
    which was one."""
    apps = (
        f"http://{yarn.resource_manager.properties['yarn.resourcemanager.webapp.address']}/ws/v1/cluster/apps"
    )
    # S310: a fixed scheme
    with urllib.request.urlopen(f"{apps}?states=RUNNING", timeout=TIMEOUT_S) as answer:  # noqa: S310
        (running,) = json.load(answer)["apps"]["app"]
    request = urllib.request.Request(  # noqa: S310 - a fixed scheme
        f"{apps}/{running['id']}/state?user.name={running['user']}",
        data=json.dumps({"state": "KILLED"}).encode(),
        headers={"Content-Type": "application/json"},
        method="PUT",
    )
    urllib.request.urlopen(request, timeout=TIMEOUT_S).close()  # noqa: S310 - a fixed scheme
    return 1
