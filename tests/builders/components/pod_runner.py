"""Stands in for kubelets:
runs the container of each executor pod as a process of this machine and reports it to the API server.

It takes arguments and environment from the pod, as a kubelet does, and starts Tideline's command line in
place of the image's entry point. Each pod has a loopback address of its own. The configuration map that Spark
mounts is written to a directory. Pods have no node, so a deleted pod disappears at once, and its process is
killed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from tests.builders.components.kubernetes_api import Api, Refused


EXECUTORS: Final = "spark-role=executor"
POLL_S: Final = 0.1
GONE: Final = 404


@dataclass
class PodRunner:
    """Runs executor pods during a ``with`` block."""

    api: Api
    directory: Path
    pods: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    """All pods that were started, by their names."""
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _stopping: threading.Event = field(default_factory=threading.Event)
    _failures: list[BaseException] = field(default_factory=list)

    def running(self) -> list[str]:
        """Return the names of the pods that run."""
        return sorted(name for name, process in self._running.items() if process.poll() is None)

    def kill(self, name: str) -> None:
        """Kill the process of a pod, as a node does that runs out of memory."""
        self._running[name].send_signal(signal.SIGKILL)

    def __enter__(self) -> Self:
        self.directory.mkdir()
        self._thread = threading.Thread(target=self._run, name="pods")
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        for process in self._running.values():
            process.kill()
            process.wait()
        assert self._failures == []

    def _run(self) -> None:
        try:
            while not self._stopping.wait(POLL_S):
                self._step()
        except BaseException as error:  # noqa: BLE001 - the test reports it
            self._failures.append(error)

    def _step(self) -> None:
        found = {pod["metadata"]["name"]: pod for pod in self.api.items("Pod", EXECUTORS)}
        for name, pod in found.items():
            if name not in self.pods and (configuration := self._read_configuration(pod)) is not None:
                self._start(name, pod, configuration)
        for name in list(self._running):
            if name not in found:
                process = self._running.pop(name)
                process.kill()
                process.wait()
            elif (code := self._running[name].poll()) is not None:
                del self._running[name]
                self._report(name, "Succeeded" if code == 0 else "Failed", exit_code=code)

    def _start(self, name: str, pod: Mapping[str, Any], configuration: Mapping[str, str]) -> None:
        address = f"127.0.1.{len(self.pods) + 1}"
        (container,) = pod["spec"]["containers"]
        environment = {
            entry["name"]: self._value(entry, pod, address)
            for entry in container["env"]
            if "value" in entry or "valueFrom" in entry
        }
        mounted = self.directory / name / "conf"
        mounted.mkdir(parents=True)
        for file, text in configuration.items():
            (mounted / file).write_text(text)
        own = {
            "SPARK_CONF_DIR": str(mounted),
            "SPARK_LOCAL_DIRS": str(self.directory / name / "scratch"),
            "PYTHONPATH": str(Path.cwd()),  # an executor leaves the driver's jars in its working directory
        }
        self.pods[name] = pod
        with (self.directory / f"{name}.log").open("wb") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", "daemon", *container["args"]],
                env=os.environ | environment | own,
                cwd=self.directory / name,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._report(name, "Running", address)

    @staticmethod
    def _value(entry: Mapping[str, Any], pod: Mapping[str, Any], address: str) -> str:
        if "valueFrom" not in entry:
            return str(entry["value"])
        named = entry["valueFrom"]["fieldRef"]["fieldPath"]
        return address if named == "status.podIP" else str(pod["metadata"]["name"])

    def _read_configuration(self, pod: Mapping[str, Any]) -> dict[str, str] | None:
        """Return the files of the pod's configuration maps; None if one does not exist yet, because Spark
        creates them after the pods."""
        names = [each["configMap"]["name"] for each in pod["spec"]["volumes"] if "configMap" in each]
        found: dict[str, str] = {}
        for name in names:
            try:
                found |= self.api.read("ConfigMap", name).get("data", {})
            except Refused as refused:
                if refused.status != GONE:
                    raise
                return None
        return found

    def _report(
        self, name: str, phase: str, address: str | None = None, exit_code: int | None = None
    ) -> None:
        state = {"running": {}} if exit_code is None else {"terminated": {"exitCode": abs(exit_code)}}
        (container,) = self.pods[name]["spec"]["containers"]
        status = {
            "phase": phase,
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "restartCount": 0,
                    "ready": exit_code is None,
                    "state": state,
                }
            ],
            **({"podIP": address, "podIPs": [{"ip": address}]} if address else {}),
        }
        try:
            self.api.set_status("Pod", name, status)
        except Refused as refused:
            if refused.status != GONE:
                raise
