"""Actions on policies over HTTP, like the commands ``bootstrap``, ``pause``, ``resume``, ``release``,
``prune``, ``promote``, ``retire``, ``compact`` and ``gap policy``, and loads of single tables.

Like a command's request, the request goes through the inbox of the policy, so that the policy's own loop
serves it between two batches. A compaction only joins the queue of the target, and needs no loop.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Annotated, Any, Final

from annotated_types import MaxLen, MinLen
from pydantic import TypeAdapter

from daemon.config.model import Config
from daemon.config.settings.policies import PolicyConfig
from daemon.http.actions import STRICT, Audit, NoParameters, action_route
from daemon.http.endpoints import build_endpoint
from daemon.http.operations import BASE, ApiRoute, Operation
from daemon.http.parameters import Parameters
from daemon.process.inbox import requests_directory, send_request
from daemon.replica.policies import STATE_KIND, handler_policy
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap import BootstrapRequest
from handlers.replication.operations.compaction import (
    CompactionState,
    Kind,
    RequestedCompaction,
    list_compactions,
    request_compactions,
)
from handlers.replication.operations.promotion import Promotion
from handlers.replication.operations.pruning import PlannedDrop
from handlers.replication.operations.retirement import Retirement
from handlers.replication.tables.pause import REASON_CHARACTERS_MAX
from state.errors import NotFound


POLICY_NAME: Final = "Name of the policy; PATTERN.DATABASE for a database of a pattern."
TIMEOUT_S: Final = 60.0
"""How long a policy may take to serve a request: it may be in the middle of a batch."""


Name = Annotated[str, MinLen(1)]


@dataclass(frozen=True)
class PauseParameters:
    """Why the policy is paused."""

    __pydantic_config__ = STRICT
    reason: Annotated[str, MaxLen(REASON_CHARACTERS_MAX)] = ""
    """Shown with the pause."""


@dataclass(frozen=True)
class ReleaseParameters:
    """The table to release."""

    __pydantic_config__ = STRICT
    table: Name
    load: bool = False
    """Whether to load it again, even if it could resume."""


@dataclass(frozen=True)
class LoadParameters:
    """The tables to load again."""

    __pydantic_config__ = STRICT
    tables: list[Name]


@dataclass(frozen=True)
class PlanPruneParameters:
    """The tables to drop."""

    __pydantic_config__ = STRICT
    tables: list[Name] = field(default_factory=list)
    """Empty for all that left the policy."""


@dataclass(frozen=True)
class PruneParameters:
    """The tables to drop: the request names all of them, so that none disappears unseen."""

    __pydantic_config__ = STRICT
    tables: list[Name]


@dataclass(frozen=True)
class PromotionParameters:
    """How to promote the policy."""

    __pydantic_config__ = STRICT
    force: bool = False
    """Whether to accept incomplete tables."""


@dataclass(frozen=True)
class BootstrapParameters:
    """How to bootstrap the policy."""

    __pydantic_config__ = STRICT
    reuse_files: bool = False
    """Whether to replace the tables of the target, copying only files that differ."""


@dataclass(frozen=True)
class CompactionFilter(Parameters):
    """Which compactions to list."""

    table: str | None = None
    """Only those of this table."""


@dataclass(frozen=True)
class CompactParameters:
    """The objects to compact on the target."""

    __pydantic_config__ = STRICT
    table: Name
    partitions: list[Name] = field(default_factory=list)
    """``k=v/...``; empty for all."""
    kind: Kind = "major"


@dataclass(frozen=True)
class PauseAnswer:
    """Start of the pause."""

    paused_since_s: int | None
    """Unix time; null if the policy is not paused."""
    changed: bool
    """False if the policy was already paused, or did not need the resumption."""
    waits_for: str | None = None
    """The action of an operator without which the policy does nothing."""


@dataclass(frozen=True)
class ReleaseAnswer:
    """The next step for the released table."""

    tables: list[str]
    resumes_at: int | None
    """The event at which it resumes; null if loaded."""
    reason: str | None
    """Reason of the load."""
    waits_for: str | None = None
    """The action of an operator without which the policy does nothing."""


@dataclass(frozen=True)
class LoadAnswer:
    """The tables that wait for a load."""

    tables: list[str]
    waits_for: str | None = None
    """The action of an operator without which the policy does nothing."""


@dataclass(frozen=True)
class PrunePlan:
    """The tables to drop."""

    drops: list[PlannedDrop]


@dataclass(frozen=True)
class PruneAnswer:
    """The tables dropped."""

    dropped: list[str]


@dataclass(frozen=True)
class CompactAnswer:
    """The target's answers for the table, or for each partition."""

    requested: list[RequestedCompaction]


@dataclass(frozen=True)
class CompactionList:
    """The compactions of a policy's target database."""

    compactions: list[CompactionState]


@dataclass(frozen=True)
class GapAnswer:
    """The lost events, and the tables loaded because of them."""

    after: int
    upto: int
    tables: list[str]


def policy_routes(config: Config, audit: Audit) -> Sequence[ApiRoute]:
    """Return the routes of the actions on policies."""

    def route(
        action: str,
        summary: str,
        body: type[Any],
        answer: type[Any],
        do: Callable[[str, Any], dict[str, Any]] | None = None,
        *,
        begins: bool = False,
    ) -> ApiRoute:
        operation = Operation(
            path=f"{BASE}/policies/{{name}}/{action}",
            tag="Policies",
            summary=summary,
            answer=TypeAdapter(answer),
            name=POLICY_NAME,
            body=TypeAdapter(body),
            begins=begins,
        )

        def ask(policy: str, given: Any) -> dict[str, Any]:
            return ask_policy_loop(config, policy, {"do": action, **asdict(given)})

        return action_route(operation, body, do or ask, audit)

    def list_compacted(policy: str, given: CompactionFilter) -> dict[str, Any]:
        return asdict(CompactionList(list(read_compactions(config, policy, given.table))))

    listed = Operation(
        path=f"{BASE}/policies/{{name}}/compactions",
        tag="Policies",
        summary="The compactions on the target.",
        answer=TypeAdapter(CompactionList),
        name=POLICY_NAME,
        parameters=(CompactionFilter,),
    )
    return (
        ApiRoute(listed, build_endpoint(CompactionFilter, list_compacted)),
        route(
            "bootstrap",
            "Let the policy's loop bootstrap it, once; the status has the progress.",
            BootstrapParameters,
            BootstrapRequest,
            begins=True,
        ),
        route("pause", "Stop applying events until you resume the policy.", PauseParameters, PauseAnswer),
        route("resume", "Continue a paused policy, or one whose loop has failed.", NoParameters, PauseAnswer),
        route("release", "Follow a quarantined table again.", ReleaseParameters, ReleaseAnswer),
        route("load", "Load tables again from the source.", LoadParameters, LoadAnswer),
        route("plan-prune", "Show the tables that 'prune' would drop.", PlanPruneParameters, PrunePlan),
        route("prune", "Drop tables on the target that left the policy.", PruneParameters, PruneAnswer),
        route("plan-promotion", "Show the steps of 'promote'.", NoParameters, Promotion),
        route(
            "promote", "End the replication and open the target to writers.", PromotionParameters, Promotion
        ),
        route("retire", "End the replication and leave the replica as it is.", NoParameters, Retirement),
        route("cross-gap", "Continue after lost events.", NoParameters, GapAnswer),
        route(
            "compact",
            "Queue compactions of a table on the target.",
            CompactParameters,
            CompactAnswer,
            partial(request_compaction, config),
        ),
    )


def request_compaction(config: Config, policy: str, given: CompactParameters) -> dict[str, Any]:
    """Queue compactions of a table on the target; return the target's answer."""
    settings = require_followed(config, policy)
    table = given.table.lower().rpartition(".")[2]
    with closing(Metastore(config.targets[settings.target].metastore)) as target:
        requested = request_compactions(
            target, handler_policy(config, policy), table, given.partitions, given.kind
        )
    return {"requested": [asdict(each) for each in requested]}


def read_compactions(config: Config, policy: str, table: str | None) -> Sequence[CompactionState]:
    """Return the compactions of a policy's target database, or of one table."""
    settings = require_followed(config, policy)
    with closing(Metastore(config.targets[settings.target].metastore)) as target:
        return list_compactions(target, handler_policy(config, policy), table)


def ask_policy_loop(config: Config, policy: str, request: dict[str, Any]) -> dict[str, Any]:
    """Have the loop of a policy serve a request; raise NotFound, NotYet, and the errors of the request."""
    require_followed(config, policy)
    directory = requests_directory(config.state.dir, STATE_KIND, policy)
    return send_request(directory, request, TIMEOUT_S, not_followed(policy))


def require_followed(config: Config, policy: str) -> PolicyConfig:
    """Return the settings of a policy; raise NotFound if the configuration has none of this name."""
    settings = config.find_policy(policy)
    if settings is None:
        raise not_followed(policy)
    return settings


def not_followed(policy: str) -> NotFound:
    """Return the error for a policy that the daemon does not follow."""
    return NotFound(
        "this daemon does not follow the policy",
        policy=policy[:200],
        hint="Run 'tideline policy list' to list those that it follows.",
    )
