"""Requests of commands about one policy (``served_requests``).

A running daemon gets them as files and serves them between two batches. Without a daemon, a command opens the
policy's state itself (``daemon.status.client.serve_request``).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final
from urllib.parse import quote

from daemon.config.model import Config
from daemon.process.inbox import Request
from daemon.replica.policies import STATE_KIND, require_policy
from daemon.replica.served_requests import PolicyRequests
from daemon.state_directory.directory import state_path
from daemon.status.address import DaemonAddress
from daemon.status.client import fetch_status, find_daemon, send_action, serve_request
from daemon.terminal.application import load_config
from state.errors import GapDetected, InvalidRequest, NotFound


TIMEOUT_S: Final = 300.0
"""How long a running daemon may take to answer: it serves requests between two batches."""


_WITHOUT_OPENING: Final = frozenset({"plan-promotion", "promote", "retire"})
"""Requests that are served without opening the policy: its source may be unreachable permanently, and a
retired policy is not opened.
"""


def open_requests(
    config_path: Path | None, daemon: DaemonAddress | None, policy: str
) -> Callable[[Request], Request]:
    """Return a function that sends requests about a policy to the daemon of ``--url``, or as ``ask_policy``
    does. Raises ConfigError for an unknown policy.
    """
    if daemon is not None:
        path = f"/api/v1/policies/{quote(policy, safe='')}"
        return lambda request: send_action(daemon, path, request, timeout_s=TIMEOUT_S)
    config = load_config(config_path)
    require_policy(config, policy)
    return lambda request: ask_policy(config, policy, request)


def ask_policy(config: Config, policy: str, request: Request) -> Request:
    """Let the daemon serve a request or, if none runs, this process; raise the error in the answer."""
    absent = NotFound(
        "the running daemon does not follow this policy",
        policy=policy,
        hint="Restart it with the current configuration, on the machine with its state directory.",
    )
    return serve_request(
        config.state.dir,
        (STATE_KIND, policy),
        request,
        timeout_s=TIMEOUT_S,
        absent=absent,
        here=lambda: _serve_here(config, policy, request),
    )


def cross_gap(config: Config, policy: str) -> Request:
    """Let a policy continue after a gap. Raises InvalidRequest if it has no gap; the error names the relay if
    the relay has one.
    """
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
            hint=f"Run 'tideline gap source {source}'. The policy then stops at the lost events; repeat "
            "this command.",
        ) from error


def _stops_at_gap(config: Config, source: str) -> bool:
    """Whether the running daemon relays a source, and its relay has a gap."""
    address = find_daemon(config.state.dir)
    if address is None:
        return False
    rows = fetch_status(address, ()).sources
    return any(row.name == source and row.code == GapDetected.code for row in rows)


def _serve_here(config: Config, policy: str, request: Request) -> Request:
    """Open the policy in this process, without following it, and serve a request.

    Raises NotFound if the policy has no state here: a request must neither create a state file nor begin a
    bootstrap.
    """
    from prometheus_client import CollectorRegistry

    from daemon.process.loops.heartbeat import Pulse
    from daemon.replica.loading.load_resources import read_range
    from daemon.replica.loop import build_projection, catch_up_reader
    from daemon.replica.shared import SharedResources
    from daemon.sources.connections import CallMetrics
    from handlers.replication.observer import SilentObserver

    if not state_path(config.state.dir, STATE_KIND, policy).is_file():
        raise NotFound(
            "no daemon is running, and the policy has no state here",
            policy=policy,
            state_dir=str(config.state.dir),
            hint=f"Check state.dir. Run 'tideline bootstrap {policy}' if the policy is new. If its state "
            "file was lost, run 'tideline run': "
            "the daemon continues from the target's own position.",
        )
    shared = SharedResources.of(config, CallMetrics(CollectorRegistry(auto_describe=False)))
    projection, _ = build_projection(config, policy, SilentObserver(), shared, Pulse())
    try:
        if request.get("do") not in _WITHOUT_OPENING:
            projection.open()
        read = partial(read_range, lambda: catch_up_reader(config, policy))
        return PolicyRequests(projection, read).do(request)
    finally:
        projection.close()
        shared.close()
