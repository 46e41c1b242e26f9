"""``GET /api/v1/wait``: answered the moment its condition is true.

A waiting request holds a connection and a few kilobytes, but no thread. Its connection does not count among
``http.connections_max``, so that waits take no connections from others; ``http.waits_max`` limits them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from daemon.http.endpoints import JSON, address_of, build_response, problem_response
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import read_parameters
from daemon.http.transport.answering import Answering, Lane
from daemon.http.transport.connections import Connection
from daemon.waits.conditions import Condition, Unresolved, WaitKind, WaitParameters
from daemon.waits.waits import Waits
from state.errors import BadInput, TidelineError


PATH: Final = f"{BASE}/wait"


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitAnswer:
    """The condition is true."""

    condition: str
    """Its kind: ``replica``, ``partition`` or ``range``."""
    source: str | None
    event_id: int | None
    """The event that the replica or the catalog reflects."""
    wanted_event_id: int | None
    """The event that the replica had to reflect."""
    left_out: list[str]
    """Tables that do not reflect the event, because they are in quarantine or loading."""
    waited_s: float


def wait_route(waits: Waits, kinds: Sequence[WaitKind[Any]]) -> ApiRoute:
    """Return the route of all kinds of conditions."""
    known = {kind.name: kind for kind in kinds}

    async def endpoint(request: Request) -> Response:
        began_s = time.monotonic()
        try:
            kind = _select_kind(known, request.query_params)
            given = read_parameters(kind.parameters, request.query_params)
            with request.state.connection.set_aside(), _cancelled_if_left(request.state.connection):
                found = await _wait(request, waits, kind, given)
        except TidelineError as error:
            return problem_response(error)
        except _Left:
            return Response(status_code=499)
        answer = WaitAnswer(
            condition=kind.name,
            source=found.source,
            event_id=found.event_id,
            wanted_event_id=found.wanted_event_id,
            left_out=list(found.left_out),
            waited_s=round(time.monotonic() - began_s, 3),
        )
        return build_response(orjson.dumps(answer), JSON)

    operation = Operation(
        path=PATH,
        tag="Waiting",
        summary="Wait until a condition is true; the answer is 504 if it does not become true in time.",
        answer=TypeAdapter(WaitAnswer),
        parameters=[kind.parameters for kind in kinds],
        problems={"504": "The condition was not true within the timeout."},
    )
    return ApiRoute(operation, endpoint)


async def _wait(request: Request, waits: Waits, kind: WaitKind[Any], given: WaitParameters) -> Any:
    condition: Condition | Unresolved = kind.build(given)
    if isinstance(condition, Unresolved):
        answering: Answering = request.state.answering
        condition = await answering.run(condition.resolve, Lane.STORE, address_of(request))
    return await waits.wait(condition, given.timeout_s)


class _Left(Exception):  # noqa: N818 - not an error
    """The client has left."""


@contextmanager
def _cancelled_if_left(connection: Connection) -> Iterator[None]:
    """Cancel the task of this request if the client leaves, and raise ``_Left``. A second task that receives
    the end of the connection would take as much memory and time again.
    """
    task, has_left = asyncio.current_task(), False
    assert task is not None

    def leave() -> None:
        nonlocal has_left
        has_left = True
        task.cancel()

    connection.left, before = leave, connection.left
    try:
        yield
    except asyncio.CancelledError:
        if not has_left:
            raise
        task.uncancel()
        raise _Left from None
    finally:
        connection.left = before


def _select_kind(known: Mapping[str, WaitKind[Any]], given: Container[str]) -> WaitKind[Any]:
    """Return the kind that exactly one of the parameters selects."""
    selected = [kind for name, kind in known.items() if name in given]
    if len(selected) != 1:
        raise BadInput("exactly one condition is required", known=sorted(known))
    return selected[0]
