"""Many policies of one source and two targets in one daemon, which is killed again and again while all
databases are written to and one of the targets is out of reach for a while. Transactions span databases, also
of both targets, and some are aborted.

``make many-policies`` runs it with two hundred: TIDELINE_POLICIES and TIDELINE_POLICIES_KILLS set its size.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from functools import partial
from itertools import cycle
from pathlib import Path
from random import Random
from typing import Final

import pytest
import yaml

from bench.events.writer import TABLE, Load, Writer
from daemon.status.model import DaemonStatus
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from handlers.metastore.client import Metastore
from tests.builders.components.proxy import Proxy
from tests.builders.daemon.http_client import asked, told_port
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.spanning_writer import SpanningWriter
from tests.integration.conftest import database, stack, topic


__all__ = ["database", "stack", "topic"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

POLICIES: Final = int(os.environ.get("TIDELINE_POLICIES", "30"))
KILLS: Final = int(os.environ.get("TIDELINE_POLICIES_KILLS", "5"))
CUT: Final = range(KILLS * 3 // 10, KILLS * 6 // 10)
"""The kills at which the second target is out of reach."""
EVENTS_BETWEEN_KILLS: Final = (20, 400)
"""From a moment at which the daemon has hardly started to one at which it follows."""
TRANSACTIONS_PER_S: Final = 15
WRITERS: Final = 4
WRITING_S: Final = KILLS * (5 + POLICIES / 25)
"""A start takes the longer, the more policies there are."""
FOLLOW_S: Final = 600.0
SAMPLES_MAX: Final = 2_000


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
def _writing(metastore: str, dbs: list[str], random: Random, aborted: set[tuple[str, int]]) -> Iterator[Load]:
    """Write to all databases during the block, and finish what was begun."""
    build = partial(SpanningWriter, metastore, cycle(dbs), random, aborted)
    load = Load(build, per_s=TRANSACTIONS_PER_S, seconds=WRITING_S, writers=WRITERS)
    load.start()
    yield load
    load.join()


def _count_samples(daemon: RunningDaemon) -> Iterator[int]:
    """Count the samples of a scrape, unless the daemon does not serve yet."""
    with suppress(OSError):
        text = asked(told_port(daemon.state_dir), "/metrics").text
        yield sum(not line.startswith("#") for line in text.splitlines())


def _deltas(warehouse: str, db: str) -> set[str]:
    return {path.name for path in Path(warehouse, f"{db}.db", TABLE).glob("delta_*")}


def test_many_policies_end_equal_to_their_sources_although_their_daemon_is_killed_again_and_again(
    stack: Endpoints,  # noqa: F811 - a fixture asks for fixtures by their names
    topic: str,  # noqa: F811 - likewise
    database: str,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    random, aborted = Random(32), set[tuple[str, int]]()  # noqa: S311 - a test
    names = {
        target: [f"{database}_{target}_{number}" for number in range(POLICIES // 2)]
        for target in ("dr", "second")
    }
    dbs = [name for own in names.values() for name in own]
    random.shuffle(dbs)  # so that two in succession have one target or both
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
            newest, began_s = source.current_event_id(), time.monotonic()
            for target in targets:
                daemon.status_when(partial(_have_applied, target=target, event_id=newest), FOLLOW_S)
            log.info("%s follow after %.1f s", targets, time.monotonic() - began_s)

        first_event, samples = source.current_event_id(), list[int]()
        with daemon:
            with _writing(stack.source.metastore, dbs, random, aborted) as load:
                for kill in range(KILLS):
                    if kill == CUT.start:
                        proxy.cut()
                    if kill == CUT.stop:
                        await_applied("dr")  # a target out of reach holds up nobody else
                        proxy.join()
                    if kill % 3 == 2:
                        await_applied(*(("dr",) if kill in CUT else names))
                    else:
                        _await_event(source, random.randint(*EVENTS_BETWEEN_KILLS), load)
                    samples += _count_samples(daemon)
                    log.info("kill %s, writers run: %s, samples: %s", kill + 1, load.running, samples[-1:])
                    daemon.kill()
                    daemon.start()
            log.info("%s events", source.current_event_id() - first_event)
            await_applied(*names)
            samples += _count_samples(daemon)
            policies = [f"{target}.{db}" for target, own in names.items() for db in own]
            with ThreadPoolExecutor(2) as pool:
                for verified in pool.map(partial(daemon.command, "verify"), policies):
                    assert verified.returncode == 0, (verified.args, verified.stdout, verified.stderr)
    assert max(samples) < SAMPLES_MAX
    assert aborted
    for db in dbs:
        discarded = {f"delta_{write_id:07}_{write_id:07}_0000" for name, write_id in aborted if name == db}
        copied = _deltas(stack.target.warehouse, f"{db}_r")
        assert copied == _deltas(stack.source.warehouse, db) - discarded
