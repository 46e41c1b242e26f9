"""Actions on the catalog of a source over HTTP: a branch loads or checks a table, for example.

They send the same requests to the catalog's inbox as ``tideline timeline`` and ``tideline partitions``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from pydantic import TypeAdapter

from daemon.catalog.access import CHANGE_TIMEOUT_S
from daemon.catalog.branch import BranchAction, CatalogBranch
from daemon.catalog.settings import CATALOG
from daemon.config.model import Config
from daemon.http.actions import Audit, action_route
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.process.inbox import requests_directory, send_request
from state.errors import NotFound


def catalog_action_routes(
    config: Config, branches: Sequence[CatalogBranch], audit: Audit
) -> Sequence[ApiRoute]:
    """Return the routes for the actions of all branches."""
    return [_route(config, branch, action, audit) for branch in branches for action in branch.actions()]


def _route(config: Config, branch: CatalogBranch, action: BranchAction, audit: Audit) -> ApiRoute:
    operation = Operation(
        path=f"{BASE}/sources/{{name}}/{action.name}",
        tag=branch.name.capitalize(),
        summary=action.summary,
        answer=TypeAdapter(action.answer),
        name="Name of the source.",
        body=TypeAdapter(action.body),
    )

    def do(source: str, given: Any) -> dict[str, Any]:
        absent = NotFound(f"this daemon has no {branch.name} of the source", source=source[:200])
        if source not in CATALOG.of(config) or not branch.serves(config, source):
            raise absent
        directory = requests_directory(config.state.dir, "catalog", source)
        values = asdict(given)
        request = {**values, "do": action.name, "table": values["table"].lower()}
        return send_request(directory, request, CHANGE_TIMEOUT_S, absent)

    return action_route(operation, action.body, do, audit)
