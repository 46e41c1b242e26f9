"""Routes of the probes, the metrics and the status as JSON.

Responses come from values in memory. They take no locks that a loop may hold and send no requests to other
systems, so probes succeed while the metastore is down. Probes and metrics also have a listener with its own
process (``daemon.http.probes``). ``/livez`` checks only heartbeats: a restart helps a loop that hangs, but
not a dependency that is down. ``/readyz`` checks whether the loops are current.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from starlette.routing import Route

from daemon.http.endpoints import (
    Made,
    made_response,
    make_json,
    make_metrics,
    metrics_response,
    probe_answer,
    probe_response,
    problem_response,
)
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters, read_parameters
from daemon.http.transport.answering import Lane
from daemon.status.model import STATUS_FORM
from daemon.status.watching import StatusWatchers
from state.errors import TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from prometheus_client import CollectorRegistry
    from starlette.requests import Request
    from starlette.responses import Response

    from daemon.status.model import DaemonStatus, StatusSection


@dataclass(frozen=True)
class StatusParameters(Parameters):
    """How to return the status."""

    watch: str | None = None
    """Send the status as server-sent events, one after each change."""


@dataclass(frozen=True, slots=True)
class Views:
    """The values that the routes show. The functions return immediately, in any thread."""

    status: Callable[[], DaemonStatus]
    stuck: Callable[[], Sequence[str]]
    registry: CollectorRegistry
    lag_ready_s: float
    sections: Sequence[StatusSection[Any]] = ()

    def answer_ready(self) -> Made:
        """Return whether the loops are current."""
        return probe_answer(self.status().unready_reasons(self.lag_ready_s, self.sections))

    def make_metrics(self, accept: str) -> Made:
        """Return the metrics in a format that a client accepts by this header."""
        return make_metrics(self.registry, accept)


def status_routes(views: Views) -> list[Route]:
    """Return the routes of the probes, the metrics and the status."""
    routes = _Routes(views)
    return [
        Route("/livez", routes.livez, methods=["GET"]),
        Route("/readyz", routes.readyz, methods=["GET"]),
        Route("/metrics", routes.metrics, methods=["GET"]),
        ApiRoute(_status_operation(views.sections), routes.status),
    ]


def _status_operation(sections: Sequence[StatusSection[Any]]) -> Operation:
    def finish(schema: dict[str, Any]) -> dict[str, Any]:
        return {
            "allOf": [
                schema,
                {"type": "object", "properties": {each.key: each.json_schema() for each in sections}},
            ]
        }

    return Operation(
        path=f"{BASE}/status",
        tag="Status",
        summary="The status of the daemon: sources, projections, and problems that need an operator.",
        answer=STATUS_FORM,
        finish=finish,
        parameters=(StatusParameters,),
        streams=True,
    )


class _Routes:
    """The handlers. The thread for the status makes values that take longer than a few reads of memory."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._watchers = StatusWatchers(self._make_status)

    async def livez(self, _request: Request) -> Response:
        return probe_response([f"{name} has no heartbeat" for name in self._views.stuck()])

    async def readyz(self, request: Request) -> Response:
        return await made_response(request, self._views.answer_ready, Lane.STATUS)

    async def metrics(self, request: Request) -> Response:
        return await metrics_response(request, self._views.make_metrics)

    async def status(self, request: Request) -> Response:
        try:
            given = read_parameters(StatusParameters, request.query_params)
            if given.watch is not None:
                return self._watchers.respond(request)
        except TidelineError as error:
            return problem_response(error)
        return await made_response(request, lambda: self._make_status()[1], Lane.STATUS)

    def _make_status(self) -> tuple[str, Made]:
        status = self._views.status()
        values = status.to_json()
        return status.state, make_json(values, {**values, "time_s": None})
