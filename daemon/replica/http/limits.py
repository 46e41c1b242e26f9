"""Actions that change the limits of copying until the daemon restarts.

A change takes effect in memory at once, without waiting for the loop of a policy: operators need it while a
network is overloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

from annotated_types import Interval
from pydantic import TypeAdapter

from daemon.config.fields import BYTES_PER_S_MIN
from daemon.config.model import Config
from daemon.http.actions import STRICT, Audit, action_route
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.http.transport.answering import Lane
from daemon.replica.http.routes import require_followed
from daemon.replica.shared import SharedResources
from handlers.files.copying.byte_rates import ByteRate


BYTES_PER_S_MAX: Final = 2**53
"""The largest number that every JSON reader reads exactly."""


@dataclass(frozen=True)
class LimitParameters:
    """The new limit."""

    __pydantic_config__ = STRICT
    bytes_per_s_max: Annotated[int, Interval(ge=BYTES_PER_S_MIN, le=BYTES_PER_S_MAX)] | None
    """Null for none."""


@dataclass(frozen=True)
class LimitAnswer:
    """The limit before and after the change."""

    before: int | None
    bytes_per_s_max: int | None


@dataclass(frozen=True)
class PolicyLimit:
    """The limit of a policy's copies; null for no limit."""

    name: str
    bytes_per_s_max: int | None


@dataclass(frozen=True)
class LimitList:
    """The limit of all copies (null for no limit), and the limits of the policies."""

    bytes_per_s_max: int | None
    policies: list[PolicyLimit]


def limit_routes(
    config: Config, shared: SharedResources, audit: Audit, policies: Callable[[], Iterable[str]]
) -> Sequence[ApiRoute]:
    """Return the routes that show and change the limits of copying."""

    def route(path: str, summary: str, find: Callable[[str], ByteRate]) -> ApiRoute:
        operation = Operation(
            path=f"{BASE}/{path}/limit",
            tag="Policies",
            summary=summary,
            answer=TypeAdapter(LimitAnswer),
            name="Name of the policy.",
            body=TypeAdapter(LimitParameters),
        )

        def do(name: str, given: LimitParameters) -> dict[str, Any]:
            rate = find(name)
            before = rate.bytes_per_s
            rate.change(given.bytes_per_s_max)
            return {"before": before, "bytes_per_s_max": given.bytes_per_s_max}

        return action_route(operation, LimitParameters, do, audit)

    def find_of_policy(name: str) -> ByteRate:
        require_followed(config, name)
        return shared.policy_rate(config, name)

    def show(_name: str, _parameters: Parameters) -> dict[str, Any]:
        rates = [(name, shared.policy_rate(config, name)) for name in policies()]
        return asdict(
            LimitList(shared.rate.bytes_per_s, [PolicyLimit(name, rate.bytes_per_s) for name, rate in rates])
        )

    shown = Operation(
        path=f"{BASE}/copies",
        tag="Policies",
        summary="The limits of copying.",
        answer=TypeAdapter(LimitList),
    )
    return (
        ApiRoute(shown, build_endpoint(Parameters, show, lane=Lane.MEMORY)),
        route("copies", "Limit the bytes per second of all copies.", lambda _: shared.rate),
        route("policies/{name}", "Limit the bytes per second of a policy's copies.", find_of_policy),
    )
