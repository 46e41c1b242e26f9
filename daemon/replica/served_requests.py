"""Serves the requests about one policy in the thread of its loop. All requests are repeatable.

====================================================  ========================================================
request                                               answer
====================================================  ========================================================
``{"do": "load", "tables": [...], "reason": ...}``    ``{"tables": [...]}``: they wait for a load
``{"do": "release", "table": ..., "load": ...}``      ``{"tables": [...], "resumes_at": ..., "reason": ...}``:
                                                      the event at which the table resumes, or null and why it
                                                      is loaded; refused for a table that needs no release
``{"do": "plan-prune", "tables": [...]}``             ``{"drops": [...]}``: what ``prune`` would drop; all
                                                      tables that left if none is named
``{"do": "prune", "tables": [...]}``                  ``{"dropped": [...]}``; refused for a table that did not
                                                      leave the policy
``{"do": "pause", "reason": "..."}``                  ``{"paused_since_s": ..., "changed": ...}``
``{"do": "resume"}``                                  ``{"paused_since_s": null, "changed": ...}``
``{"do": "plan-promotion"}``                          what ``promote`` would do (``Promotion``)
``{"do": "promote", "force": ...}``                   the same, done; refused with tables that are incomplete,
                                                      unless forced
``{"do": "retire"}``                                  ``{"policy": ..., "aborted": ..., "unmarked": ...}``
``{"do": "bootstrap", "reuse_files": ...}``           the same: the loop bootstraps the new policy next;
                                                      refused if it has a replica, or is paused
``{"do": "cross-gap"}``                               ``{"after": ..., "upto": ..., "tables": [...]}``;
                                                      refused while following
====================================================  ========================================================

In the answers of ``load``, ``release`` and ``resume``, ``waits_for`` names the action of an operator that the
policy waits for.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final, cast, get_args

from handlers.replication.loading.bootstrap import BootstrapRequest
from handlers.replication.tables.pause import REASON_CHARACTERS_MAX
from handlers.replication.tables.table_loads import Reason
from state.errors import BadInput, InvalidRequest


if TYPE_CHECKING:
    from daemon.process.inbox import Request
    from handlers.replication.loading.resume import ReadEvents
    from handlers.replication.projection import ReplicationProjection


_NEED_STATE: Final = frozenset({"load", "release", "plan-prune", "prune", "cross-gap"})
"""Requests that write the position, and therefore need an open state."""


class PolicyRequests:
    """Serves the requests about one policy, in replay's thread."""

    def __init__(self, projection: ReplicationProjection, read: ReadEvents, *, follows: bool = False) -> None:
        """``follows`` says whether ``projection`` follows its source now; without a loop, or with a failed
        one, it does not.

        ``read`` returns the events after one id up to another.
        """
        self._projection = projection
        self._read = read
        self._follows = follows

    def do(self, request: Request) -> Request:
        """Serve one request; raise BadInput for an unknown one, NotFound for an unknown table."""
        match request.get("do"):
            case "plan-promotion":
                return asdict(self._projection.plan_promotion())
            case "promote":
                return asdict(self._projection.promote(forced=request.get("force") is True))
            case "retire":
                return asdict(self._projection.retire())
        self._projection.require_active()
        if request.get("do") == "bootstrap":
            policy, reuses = self._projection.loads.context.policy.name, request.get("reuse_files") is True
            return asdict(self._projection.request_bootstrap(BootstrapRequest(policy, reuse_files=reuses)))
        return self._do_following(request)

    def _do_following(self, request: Request) -> Request:
        """Serve one request about a followed policy."""
        if request.get("do") in _NEED_STATE:
            self._projection.require_state()
        match request.get("do"):
            case "load":
                reason = request.get("reason", "repair")
                if reason not in get_args(Reason):
                    raise BadInput("unknown reason of a load", reason=str(reason)[:100])
                names = _table_names(request.get("tables"))
                tables = self._projection.loads.request(names, cast("Reason", reason))
                return {"tables": list(tables), **self._waits_for()}
            case "release":
                (table,) = _table_names([request.get("table")])
                done = self._projection.loads.release(table, self._read, load=request.get("load") is True)
                return {
                    "tables": [done.table],
                    "resumes_at": done.resumes_at,
                    "reason": done.reason,
                    **self._waits_for(),
                }
            case "plan-prune" | "prune" as step:
                return self._prune(request.get("tables"), plans=step == "plan-prune")
            case "pause":
                was_paused = self._projection.pause.since_s() is not None
                reason = str(request.get("reason") or "")
                if len(reason) > REASON_CHARACTERS_MAX:
                    raise BadInput(
                        "the reason of a pause is too long",
                        characters=len(reason),
                        limit=REASON_CHARACTERS_MAX,
                        hint="Shorten it.",
                    )
                return {"paused_since_s": self._projection.begin_pause(reason), "changed": not was_paused}
            case "resume":
                return {
                    "paused_since_s": None,
                    "changed": self._projection.pause.end(),
                    **self._waits_for(),
                }
            case "cross-gap":
                return self._cross_gap()
        raise BadInput("unknown request", request=str(request)[:200])

    def _waits_for(self) -> Request:
        return {"waits_for": self._projection.find_missing_action()}

    def _prune(self, tables: object, *, plans: bool) -> Request:
        if not plans:
            return {"dropped": list(self._projection.prune(_table_names(tables)))}
        drops = self._projection.plan_prune(_table_names(tables) if tables else ())
        return {"drops": [asdict(drop) for drop in drops]}

    def _cross_gap(self) -> Request:
        policy = self._projection.loads.context.policy.name
        if self._follows:
            raise InvalidRequest(
                "the policy has no gap: it is following its source",
                policy=policy,
                hint=f"To load tables again, run 'tideline verify {policy} --repair'.",
            )
        return asdict(self._projection.cross_gap())


def _table_names(value: object) -> list[str]:
    """Return names of tables in lower case and without a database; raise BadInput for anything else."""
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise BadInput("a request must name tables", value=str(value)[:200])
    return [name.lower().rpartition(".")[2] for name in value]
