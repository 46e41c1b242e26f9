"""Actions on the catalog of a source over HTTP: one table is loaded again from the metastore.

They act like ``tideline timeline rebuild`` and ``tideline partitions load``, through the catalog's inbox.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter

from daemon.catalog.access import CHANGE_TIMEOUT_S
from daemon.catalog.branch import CatalogBranch
from daemon.catalog.settings import CATALOG
from daemon.config.model import Config
from daemon.http.actions import STRICT, Audit, action_route
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.process.inbox import requests_directory, send_request
from state.errors import NotFound


@dataclass(frozen=True)
class TableParameters:
    """Which table is loaded."""

    __pydantic_config__ = STRICT
    table: str
    """``db.table``."""


@dataclass(frozen=True)
class TableAnswer:
    """The table, and the last event that its catalog reflected when the request was served."""

    table: str
    event_id: int


def load_routes(config: Config, branches: Sequence[CatalogBranch], audit: Audit) -> Sequence[ApiRoute]:
    """Return an action for each branch, which loads a table of a source again."""
    return [_load_route(config, branch, audit) for branch in branches]


def _load_route(config: Config, branch: CatalogBranch, audit: Audit) -> ApiRoute:
    operation = Operation(
        path=f"{BASE}/sources/{{name}}/load-{branch.name}",
        tag=branch.name.capitalize(),
        summary=f"Load the {branch.name} of a table again from the metastore.",
        answer=TypeAdapter(TableAnswer),
        name="Name of the source.",
        body=TypeAdapter(TableParameters),
    )

    def do(source: str, given: TableParameters) -> dict[str, Any]:
        absent = NotFound(f"this daemon has no {branch.name} of the source", source=source[:200])
        if source not in CATALOG.of(config) or not branch.serves(config, source):
            raise absent
        directory = requests_directory(config.state.dir, "catalog", source)
        request = {"do": branch.load_request, "table": given.table.lower()}
        answer = send_request(directory, request, CHANGE_TIMEOUT_S, absent)
        return {"table": answer["table"], "event_id": answer["event_id"]}

    return action_route(operation, TableParameters, do, audit)
