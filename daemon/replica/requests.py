"""Requests about one policy: loads and releases of tables, pause and resume.

A running daemon gets them as files (``daemon.process.inbox``) and serves them between two batches. Without a daemon, a command opens
the policy's state itself, under the lock of the state directory. Each request can be repeated.

====================================================  =================================================================
request                                               answer
====================================================  =================================================================
``{"do": "load", "tables": [...], "reason": ...}``    ``{"tables": [...]}``: they wait for a load
``{"do": "release", "table": ..., "load": ...}``      ``{"tables": [...], "resumes_at": ..., "reason": ...}``: the event at which the table
                                                      resumes, or null and why it is loaded; refused for a table that needs no
                                                      release
``{"do": "plan-prune", "tables": [...]}``             ``{"drops": [...]}``: what ``prune`` would drop; all tables that left if none is named
``{"do": "prune", "tables": [...]}``                  ``{"dropped": [...]}``; refused for a table that did not leave the policy
``{"do": "pause"}``                                   ``{"paused_since_s": ...}``
``{"do": "resume"}``                                  ``{"paused_since_s": null}``
``{"do": "plan-promotion"}``                          what ``promote`` would do: ``handlers.replication.operations.promotion.Promotion``
``{"do": "promote", "force": ...}``                   the same, done; refused with tables that are incomplete, unless forced
``{"do": "cross-gap"}``                               ``{"after": ..., "upto": ..., "tables": [...]}``; refused while following
====================================================  =================================================================
"""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, Final, cast, get_args

from daemon.process.inbox import Request, send_request
from daemon.process.lock import state_lock
from daemon.process.state_file import state_path
from daemon.status.client import fetch_status, find_daemon
from handlers.replication.loading.table_loads import Reason
from state.errors import BadInput, GapDetected, InvalidRequest, NotFound


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from daemon.config.model import Config
    from handlers.events import Event
    from handlers.replication.loading.resume import ReadEvents
    from handlers.replication.projection import ReplicationProjection


TIMEOUT_S: Final = 300.0
"""How long a running daemon may take to answer: it serves requests between two batches."""


_NEED_STATE: Final = frozenset({"load", "release", "plan-prune", "prune", "cross-gap"})
"""Requests that write the position, which must be known then."""


def requests_directory(config: Config, policy: str) -> Path:
    """Return the directory of requests to a policy."""
    return config.state.dir / "requests" / f"replication-{policy}"


class PolicyRequests:
    """Serves the requests of one policy, in replay's thread."""

    def __init__(self, projection: ReplicationProjection, read: ReadEvents, *, follows: bool = False) -> None:
        """Serve for ``projection``, which ``follows`` its source now, or does not because no loop runs or the loop has failed.

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
        self._projection.require_not_promoted()
        return self._do_following(request)

    def _do_following(self, request: Request) -> Request:
        """Serve one request about a policy that is followed."""
        if request.get("do") in _NEED_STATE:
            self._projection.require_state()
        match request.get("do"):
            case "load":
                reason = request.get("reason", "repair")
                if reason not in get_args(Reason):
                    raise BadInput("unknown reason of a load", reason=str(reason)[:100])
                return self._load(_table_names(request.get("tables")), cast("Reason", reason))
            case "release":
                (table,) = _table_names([request.get("table")])
                return self._release(table, load=request.get("load") is True)
            case "plan-prune" | "prune" as step:
                return self._prune(request.get("tables"), plans=step == "plan-prune")
            case "pause":
                return {"paused_since_s": self._projection.pause.begin()}
            case "resume":
                self._projection.pause.end()
                return {"paused_since_s": None}
            case "cross-gap":
                return self._cross_gap()
        raise BadInput("unknown request", request=str(request)[:200])

    def _load(self, tables: list[str], reason: Reason) -> Request:
        return {"tables": list(self._projection.loads.request(tables, reason))}

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

    def _release(self, table: str, *, load: bool) -> Request:
        done = self._projection.loads.release(table, self._read, load=load)
        return {"tables": [done.table], "resumes_at": done.resumes_at, "reason": done.reason}


def _table_names(value: object) -> list[str]:
    """Return names of tables in lower case and without a database; raise BadInput for anything else."""
    if not isinstance(value, list) or not value or not all(isinstance(name, str) and name for name in value):
        raise BadInput("a request must name tables", value=str(value)[:200])
    return [name.lower().rpartition(".")[2] for name in value]


def ask_policy(config: Config, policy: str, request: Request) -> Request:
    """Have a request served by the running daemon or, if none runs, here; raise the error that it fails with."""
    from daemon.replica.event_range import read_range
    from daemon.replica.loop import catch_up_reader

    if is_daemon_running(config):
        directory = requests_directory(config, policy)
        if not directory.is_dir():
            raise NotFound(
                "the running daemon does not follow this policy",
                policy=policy,
                hint="Restart it with the current configuration, on the machine with its state directory.",
            )
        return send_request(directory, request, TIMEOUT_S)
    if request.get("do") in {"plan-promotion", "promote"}:
        return promote_here(config, policy, request)
    with state_lock(config.state.dir):
        read = partial(read_range, lambda: catch_up_reader(config, policy))
        return serve_here(config, policy, lambda projection: PolicyRequests(projection, read).do(request))


def cross_gap_of(config: Config, policy: str) -> Request:
    """Have a policy continue after a gap; raise InvalidRequest if it has none, which names the relay if the gap is there."""
    try:
        return ask_policy(config, policy, {"do": "cross-gap"})
    except InvalidRequest as error:
        source = config.policy(policy).source
        if not _stops_at_gap(config, source):
            raise
        raise InvalidRequest(
            "the policy has not reached the gap yet: the relay of its source has stopped there",
            policy=policy,
            source=source,
            hint=f"Run 'tideline relay --gap {source}'. The policy then stops at the lost events; repeat this command.",
        ) from error


def _stops_at_gap(config: Config, source: str) -> bool:
    """Whether the running daemon relays a source, and its relay has a gap."""
    address = find_daemon(config.state.dir)
    if address is None:
        return False
    rows = fetch_status(address, ()).sources
    return any(row.name == source and row.code == GapDetected.code for row in rows)


def is_daemon_running(config: Config) -> bool:
    """Whether a daemon with this state directory answers."""
    return find_daemon(config.state.dir) is not None


def promote_here(config: Config, policy: str, request: Request) -> Request:
    """Serve a request about a promotion without a daemon; the policy is not opened, because its source may be gone."""

    def read(_after: int, _upto: int) -> Iterable[Event]:
        return ()

    with state_lock(config.state.dir):
        return serve_here(
            config, policy, lambda projection: PolicyRequests(projection, read).do(request), opens=False
        )


def serve_here(
    config: Config,
    policy: str,
    serve: Callable[[ReplicationProjection], Request],
    *,
    opens: bool = True,
) -> Request:
    """Open the policy in this process, without following it, and serve a request; the caller holds the state's lock.

    Raises NotFound if the policy has no state here: a request must neither create a state file nor begin a bootstrap.
    """
    from prometheus_client import CollectorRegistry

    from daemon.process.heartbeat import Pulse
    from daemon.replica.loop import STATE_KIND, build_projection
    from daemon.sources.connections import CallMetrics
    from handlers.replication.context import SilentObserver

    if not state_path(config.state.dir, STATE_KIND, policy).is_file():
        raise NotFound(
            "no daemon is running, and the policy has no state here",
            policy=policy,
            state_dir=str(config.state.dir),
            hint=f"Check state.dir. Run 'tideline bootstrap {policy}' if the policy is new. If its state file was lost, run 'tideline run': "
            "the daemon continues from the target's own position.",
        )
    calls = CallMetrics(CollectorRegistry(auto_describe=False))
    projection, _ = build_projection(config, policy, SilentObserver(), calls, Pulse())
    try:
        if opens:
            projection.open()
        return serve(projection)
    finally:
        projection.close()
