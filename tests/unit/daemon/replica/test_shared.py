"""What the policies of a daemon share."""

from __future__ import annotations

from contextlib import ExitStack, closing
from pathlib import Path

from prometheus_client import CollectorRegistry

from daemon.process.loops.heartbeat import Pulse
from daemon.replica.loop import build_projection
from daemon.replica.shared import SharedResources
from daemon.sources.connections import CallMetrics
from handlers.replication.observer import SilentObserver
from tests.builders.daemon.assembly import config_of


def test_policies_of_a_target_share_threads_and_have_none_without_work(tmp_path: Path) -> None:
    cluster = {"metastore": ["thrift://localhost:1"]}
    policy = {"source": "lake", "target": "dr"}
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "kafka": {"bootstrap": "localhost:1"},
            "sources": {"lake": {**cluster, "topic": "lake.events", "read_roots": ["file:/lake"]}},
            "targets": {"dr": cluster, "test": cluster},
            "policies": {
                "a": {**policy, "database": "a"},
                "b": {**policy, "database": "b"},
                "c": {**policy, "database": "c", "target": "test"},
            },
        }
    )
    shared = SharedResources.of(config, CallMetrics(CollectorRegistry()))
    with ExitStack() as stack:
        stack.enter_context(closing(shared))
        ahead = {}
        for name in config.policies:
            projection, _ = build_projection(config, name, SilentObserver(), shared, Pulse())
            stack.enter_context(closing(projection))
            ahead[name] = projection.loads.context.threads
        assert ahead["a"] is ahead["b"] is shared.targets["dr"].ahead
        assert ahead["c"] is shared.targets["test"].ahead
        for threads in shared.targets.values():
            assert [each.count() for each in (threads.ahead, threads.copies, threads.load_copies)] == [0] * 3
