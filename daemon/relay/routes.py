"""The route that makes a relay continue after a gap, as ``tideline gap source`` does."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter

from daemon.config.model import Config
from daemon.http.actions import Audit, NoParameters, action_route
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.process.inbox import requests_directory, send_request
from daemon.relay.gap import CrossedRelayGap
from state.errors import NotFound


TIMEOUT_S: Final = 60.0
"""How long a relay may take to serve a request."""


def gap_route(config: Config, audit: Audit) -> ApiRoute:
    """Return the route for the action on a relay: continue after lost events."""
    operation = Operation(
        path=f"{BASE}/sources/{{name}}/cross-gap",
        tag="Sources",
        summary="Continue the relay of a source after lost events.",
        answer=TypeAdapter(CrossedRelayGap),
        name="Name of the source.",
        body=TypeAdapter(NoParameters),
    )

    def do(source: str, _: NoParameters) -> dict[str, Any]:
        absent = NotFound("this daemon does not relay the source", source=source[:200])
        if source not in config.sources or not config.sources[source].relay.enabled:
            raise absent
        directory = requests_directory(config.state.dir, "relay", source)
        return send_request(directory, {"do": "cross-gap"}, TIMEOUT_S, absent)

    return action_route(operation, NoParameters, do, audit)
