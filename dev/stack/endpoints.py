"""The addresses of a running stack, in ``endpoints.json``."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from dev.stack.errors import StackError


FILE = "endpoints.json"


@dataclass(frozen=True, slots=True)
class ClusterEndpoints:
    """One Hive cluster: ``thrift://host:port``, ``host:port`` and three directories."""

    metastore: str
    sql: str
    warehouse: str
    external: str
    cmroot: str

    @property
    def directories(self) -> tuple[str, str, str]:
        """The directories that contain all files of the cluster."""
        return self.warehouse, self.external, self.cmroot


@dataclass(frozen=True, slots=True)
class Endpoints:
    """The complete stack; ``directory`` contains data and logs."""

    directory: str
    kafka: str
    source: ClusterEndpoints
    target: ClusterEndpoints

    def write(self, directory: Path) -> Path:
        """Write ``endpoints.json`` atomically, so that a process that waits for the file never reads half of
        it.
        """
        file = directory / FILE
        part = file.with_suffix(".part")
        part.write_text(self.to_json() + "\n")
        part.replace(file)
        return file

    def to_json(self) -> str:
        """Return the endpoints as indented JSON."""
        return json.dumps(asdict(self), indent=2)


def read_endpoints(file: Path) -> Endpoints:
    """Read ``endpoints.json``; raise StackError if the file is missing or invalid."""
    try:
        raw = json.loads(file.read_text())
        source, target = ClusterEndpoints(**raw.pop("source")), ClusterEndpoints(**raw.pop("target"))
        return Endpoints(source=source, target=target, **raw)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StackError(
            f"{file} does not describe a running stack ({error}): start one with 'python -m dev.stack up'"
        ) from error
