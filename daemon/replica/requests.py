"""Requests of commands about one policy (``served_requests``).

A running daemon gets them as files (``daemon.process.inbox``) and serves them between two batches. Without a daemon, a command opens
the policy's state itself, under the lock of the state directory.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from daemon.process.inbox import Request, requests_directory, send_request
from daemon.process.lock import state_lock
from daemon.process.state_file import state_path
from daemon.replica.served_requests import PolicyRequests
from daemon.status.client import fetch_status, find_daemon
from state.errors import GapDetected, InvalidRequest, NotFound


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from daemon.config.model import Config
    from handlers.events import Event
    from handlers.replication.projection import ReplicationProjection


TIMEOUT_S: Final = 300.0
"""How long a running daemon may take to answer: it serves requests between two batches."""


def ask_policy(config: Config, policy: str, request: Request) -> Request:
    """Have a request served by the running daemon or, if none runs, here; raise the error that it fails with."""
    from daemon.replica.load_resources import read_range
    from daemon.replica.loop import catch_up_reader

    if is_daemon_running(config):
        directory = requests_directory(config.state.dir, "replication", policy)
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


def cross_gap(config: Config, policy: str) -> Request:
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
    from daemon.replica.loop import build_projection
    from daemon.replica.policies import STATE_KIND
    from daemon.sources.connections import CallMetrics
    from handlers.replication.observer import SilentObserver

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
