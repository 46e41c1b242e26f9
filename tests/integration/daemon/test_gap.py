"""A notification log that was purged before it was read: both readers stop with both ids, and continue by one
command each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pytest

from daemon.status.model import DaemonStatus
from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.servers import Metastore as MetastoreProcess
from dev.stack.hive.settings import ClusterSettings
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon, configured


FORGETFUL = ClusterSettings(
    extra={
        "metastore.repl.event.db.listener.timetolive": "3s",
        "metastore.event.db.listener.clean.interval": "1s",
        "metastore.event.db.listener.clean.startup.wait.interval": "0s",
    }
)


@pytest.fixture
def short_lived_log(stack: Endpoints, tmp_path: Path) -> Iterator[ClusterEndpoints]:
    """A source that keeps its log for three seconds."""
    process = MetastoreProcess(tmp_path / "short_lived_log", settings=FORGETFUL)
    process.start()
    layout = process.layout
    yield ClusterEndpoints(
        process.uri, "127.0.0.1:1", str(layout.warehouse), str(layout.external), str(layout.cmroot)
    )
    process.stop()


@dataclass
class Purged:
    """Whether the log of a source begins after the event ``event_id``. If it is empty, adds an event with
    which it can begin."""

    source: Metastore
    event_id: int
    made: int = 0

    def __call__(self) -> bool:
        first = self.source.next_events(0, 1)
        if not first:
            self.made += 1
            self.source.create_database(Database(name=f"late_{self.made}"))
        return bool(first) and first[0].eventId > self.event_id


@pytest.mark.long
def test_a_purged_log_stops_relay_and_replica_with_both_ids_until_both_cross_the_gap(
    short_lived_log: ClusterEndpoints, stack: Endpoints, topic: str, database: str, tmp_path: Path
) -> None:
    with closing(Metastore([short_lived_log.metastore])) as source:
        for number in range(3):
            source.create_database(Database(name=f"early_{number}"))
        position = source.current_event_id()
        daemon = configured(
            tmp_path,
            stack,
            source=short_lived_log,
            topic=topic,
            database=database,
            relay={"start": position + 1},
        )
        daemon.bootstrap()
        for name in ("lost", "lost_too"):
            source.create_database(Database(name=name))
        purged = Purged(source, position + 2)
        eventually(purged)
        with daemon:

            def both_failed() -> bool:
                purged()
                status = daemon.status_when(lambda _: True)
                return status.sources[0].relay_state == "failed" and status.projections[0].state == "failed"

            eventually(both_failed)
            status = daemon.status_when(lambda _: True)
            shown = daemon.command("status")
            relayed = daemon.command("gap", "source", "lake", "--json")
            assert relayed.returncode == 0, relayed.stderr
            crossed = daemon.command("gap", "policy", "shop", "--json")
            assert crossed.returncode == 0, crossed.stderr
            answer = json.loads(crossed.stdout)
            names = count()
            eventually(lambda: has_crossed(daemon, source, f"after_{next(names)}", answer["upto"]))
            refused = daemon.command("gap", "policy", "shop")
        expected = f"expected={position + 1}"
        assert status.projections[0].code == "gap"
        for problem in (status.sources[0].problem or "", status.projections[0].problem or ""):
            assert re.search(rf"\[gap\].*{expected}, found=", problem)
        assert status.projections[0].event_id == position, "nothing is skipped"
        assert "failed" in shown.stdout, shown.stderr
        assert "tideline gap policy shop" in shown.stdout
        assert "tideline gap source lake" in shown.stdout
        lost = json.loads(relayed.stdout)
        assert lost["after"] == position
        assert lost["upto"] > position
        assert (answer["after"], answer["tables"]) == (position, [])
        assert answer["upto"] > position + 2
        assert "has no gap" in refused.stderr
        assert expected in shown.stdout


@pytest.mark.long
def test_a_policy_at_the_end_of_the_topic_names_the_relay_that_has_stopped_at_the_gap(
    short_lived_log: ClusterEndpoints, stack: Endpoints, topic: str, database: str, tmp_path: Path
) -> None:
    with closing(Metastore([short_lived_log.metastore])) as source:
        daemon = configured(tmp_path, stack, source=short_lived_log, topic=topic, database=database)
        daemon.bootstrap()
        with daemon:
            daemon.status_when(lambda s: s.sources[0].relay_state == s.projections[0].state == "following")
            source.create_database(Database(name="relayed"))
            daemon.applied(source.current_event_id())
        for name in ("lost", "lost_too"):
            source.create_database(Database(name=name))
        purged = Purged(source, source.current_event_id())
        eventually(purged)
        with daemon:

            def only_the_relay_has_failed(status: DaemonStatus) -> bool:
                purged()
                states = (status.sources[0].relay_state, status.projections[0].state)
                return states == ("failed", "following")

            status = daemon.status_when(only_the_relay_has_failed)
            refused = daemon.command("gap", "policy", "shop")
        assert status.sources[0].code == "gap"
        assert (status.sources[0].lag_events or 0) > 1
        assert refused.returncode == 1
        assert "the relay of its source has stopped there" in refused.stderr
        assert "tideline gap source lake" in refused.stderr


def has_crossed(daemon: RunningDaemon, source: Metastore, name: str, upto: int) -> bool:
    """Write one more event; return whether events after ``upto`` are applied and nothing needs an operator.

    The log is still purged, so on a busy machine there may be further gaps, which are crossed as well.
    """
    source.create_database(Database(name=name))
    now = daemon.status_when(lambda _: True)
    if now.sources[0].relay_state == "failed":
        daemon.command("gap", "source", "lake")
    if now.projections[0].state == "failed":
        daemon.command("gap", "policy", "shop")
    return (now.projections[0].event_id or 0) > upto and now.needs_operator == ()
