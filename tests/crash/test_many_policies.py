"""Two hundred policies of one source and two targets in one daemon, which is killed again and again while all
databases are written to and one of the targets is out of reach for a while."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random

import pytest
import yaml

from bench.events.writer import Load, Writer
from bench.policies import SpreadWriter
from daemon.status.model import DaemonStatus
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from handlers.metastore.client import Metastore
from tests.builders.components.proxy import Proxy
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.integration.conftest import database, stack, topic


__all__ = ["database", "stack", "topic"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

POLICIES = 200
KILLS = 20
CUT = range(6, 12)
"""The kills at which the second target is out of reach."""
EVENTS_BETWEEN_KILLS = (20, 800)
"""From a moment at which the daemon has hardly started to one at which it follows."""
COMMITS_PER_S, COMMITS_S, WRITERS = 20, 120.0, 4
FOLLOW_S = 600.0


def _replace_policies(daemon: RunningDaemon, database: str, second_target: str) -> None:  # noqa: F811 - a name
    values = yaml.safe_load(daemon.config.read_text())
    del values["policies"]
    values["targets"]["second"] = {"metastore": [f"thrift://{second_target}"]}
    values["policy_patterns"] = {
        target: {
            "source": "lake",
            "target": target,
            "databases": {"include": [f"{database}_{target}_*"]},
            "target_database": "{database}_r",
        }
        for target in ("dr", "second")
    }
    daemon.config.write_text(yaml.safe_dump(values))


def _have_applied(status: DaemonStatus, target: str, event_id: int) -> bool:
    """Return whether all policies of a target have applied an event."""
    named = [each for each in status.projections if each.name.startswith(f"replication:{target}.")]
    applied = sum(each.state == "following" and (each.event_id or 0) >= event_id for each in named)
    return applied == len(named) == POLICIES // 2


def _await_event(source: Metastore, events: int, load: Load) -> None:
    """Wait until that many further events happen, or until nothing more is written."""
    goal = source.current_event_id() + events
    eventually(lambda: source.current_event_id() >= goal or not load.running, FOLLOW_S, pause_s=0.05)


@contextmanager
def _writing(metastore: str, dbs: list[str]) -> Iterator[Load]:
    """Insert into one database after the other during the block, and finish what was begun."""
    build = partial(SpreadWriter, metastore, cycle(dbs))
    load = Load(build, per_s=COMMITS_PER_S, seconds=COMMITS_S, writers=WRITERS)
    load.start()
    yield load
    load.join()


def test_hundreds_of_policies_end_equal_to_their_sources_although_their_daemon_is_killed_twenty_times(
    stack: Endpoints,  # noqa: F811 - a fixture asks for fixtures by their names
    topic: str,  # noqa: F811 - likewise
    database: str,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    random = Random(32)  # noqa: S311 - a test
    names = {
        target: [f"{database}_{target}_{number}" for number in range(POLICIES // 2)]
        for target in ("dr", "second")
    }
    dbs = [name for pair in zip(*names.values(), strict=True) for name in pair]
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    with (
        Proxy(stack.target.metastore) as proxy,
        closing(WritingMetastore(stack.source.metastore)) as source,
    ):
        _replace_policies(daemon, database, proxy.address)
        for db in dbs:
            writer = Writer(source, db)
            writer.create()
            writer.insert()

        def await_applied(*targets: str) -> None:
            newest = source.current_event_id()
            for target in targets:
                daemon.status_when(partial(_have_applied, target=target, event_id=newest), FOLLOW_S)

        with daemon:
            await_applied(*names)
            with _writing(stack.source.metastore, dbs) as load:
                for kill in range(KILLS):
                    if kill == CUT.start:
                        proxy.cut()
                    if kill == CUT.stop:
                        await_applied("dr")  # a target out of reach holds up nobody else
                        proxy.join()
                    _await_event(source, random.randint(*EVENTS_BETWEEN_KILLS), load)
                    log.info("kill %s", kill + 1)
                    daemon.kill()
                    daemon.start()
            await_applied(*names)
            policies = [f"{target}.{db}" for target, own in names.items() for db in own]
            with ThreadPoolExecutor(2) as pool:
                for verified in pool.map(partial(daemon.command, "verify"), policies):
                    assert verified.returncode == 0, (verified.args, verified.stdout, verified.stderr)
