"""The policies over HTTP: their list with state and lag, their settings, and their external directories.

They are the answers of ``tideline policy list``, ``tideline policy show`` and ``tideline external``.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from daemon.config.shown import show_settings
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.http.transport.answering import Lane
from daemon.replica.external.directories import read_directories
from daemon.replica.http.routes import POLICY_NAME, require_followed


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from daemon.config.model import Config
    from daemon.status.model import DaemonStatus, ProjectionView


_TAG: Final = "Policies"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyRow:
    """A policy with its state; values of the state are null if unknown."""

    name: str
    source: str
    database: str
    target: str
    target_database: str
    state: str | None
    lag_events: int | None
    lag_s: float | None
    quarantined: int | None


@dataclass(frozen=True, slots=True)
class PolicyList:
    """The policies, those of patterns included."""

    policies: list[PolicyRow]


@dataclass(frozen=True, slots=True)
class DirectoryRow:
    """A directory of an external table."""

    table: str
    source: str
    target: str | None
    """Null if the policy has no external_base, or for a refused location."""


@dataclass(frozen=True, slots=True)
class DirectoryList:
    """The directories of a policy's external tables, as of the last cycle."""

    policy: str
    directories: list[DirectoryRow]


def list_policies(config: Config, status: DaemonStatus | None) -> list[PolicyRow]:
    """Return the configured policies, and those of patterns that the status names."""
    pairs = () if status is None else ((view.name.partition(":"), view) for view in status.projections)
    views = {name: view for (kind, _, name), view in pairs if kind == "replication"}
    names = sorted({*config.policies, *(name for name in views if config.find_policy(name) is not None)})
    return [_row(config, name, views.get(name)) for name in names]


def _row(config: Config, name: str, view: ProjectionView | None) -> PolicyRow:
    settings = config.policy(name)
    return PolicyRow(
        name=name,
        source=settings.source,
        database=settings.database,
        target=settings.target,
        target_database=settings.replica_database,
        state=None if view is None else view.state,
        lag_events=None if view is None else view.lag_events,
        lag_s=None if view is None else view.lag_s,
        quarantined=None if view is None else len(view.quarantined),
    )


def show_policy(config: Config, name: str) -> dict[str, Any]:
    """Return the settings of a policy, with masked secrets."""
    settings = require_followed(config, name).model_dump(mode="json")
    return {"name": name, **show_settings(settings)}


def policy_list_routes(config: Config, status: Callable[[], DaemonStatus]) -> Sequence[ApiRoute]:
    """Return the routes."""

    def list_all(_name: str, _parameters: Parameters) -> dict[str, Any]:
        return asdict(PolicyList(list_policies(config, status())))

    def list_directories(policy: str, _parameters: Parameters) -> dict[str, Any]:
        require_followed(config, policy)
        return {"policy": policy, "directories": read_directories(config, policy, None)}

    def show(policy: str, _parameters: Parameters) -> dict[str, Any]:
        return show_policy(config, policy)

    def operation(path: str, summary: str, answer: Any) -> Operation:
        return Operation(
            path=f"{BASE}/policies{path}",
            tag=_TAG,
            summary=summary,
            answer=TypeAdapter(answer),
            name=POLICY_NAME,
        )

    listed = operation("", "The policies, with state and lag.", PolicyList)
    shown = operation(
        "/{name}", "The settings of a policy, defaults included, for operators.", dict[str, Any]
    )
    external = operation(
        "/{name}/external",
        "The directories of external tables at the source and on the target.",
        DirectoryList,
    )
    return (
        ApiRoute(listed, build_endpoint(Parameters, list_all, lane=Lane.STATUS)),
        ApiRoute(shown, build_endpoint(Parameters, show, lane=Lane.MEMORY, operators_only=True)),
        ApiRoute(external, build_endpoint(Parameters, list_directories)),
    )
