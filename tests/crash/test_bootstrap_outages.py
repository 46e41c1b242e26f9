"""The daemon, both metastores and the broker are killed at every step of a bootstrap and of later loads;
all tables end equal.

The steps are the failpoints in the code of loads, so a new one is covered without a change here. A thread of
the daemon waits at each step while the component is killed, and continues without it; then the component is
started again.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.process.inbox import send_request
from dev.demo.compare import Side, compare_databases
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.cluster import Stack
from handlers.metastore.client import Metastore
from tests.builders.daemon.held_steps import HeldSteps
from tests.builders.daemon.killed_stack import VICTIMS, KilledReplica, killable_stack, wait_until
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.failpoint_names import LOADING, find_failpoints
from tests.builders.replication.many_tables import write_many
from tests.builders.replication.small_workload import ACID, PLAIN, roll_back


log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

TABLES = 12
BOOTSTRAP_STEPS = find_failpoints(LOADING, "bootstrap.", "load.")
FOLLOWING_STEPS = find_failpoints(LOADING, "load.", "catch-up.")
OVERTAKEN = "load.after-snapshot"
"""The step of a load at which replay passes the event as of which the table is loaded."""
RELOADED = ["t0001", "t0002", "t0007", "plain"]
"""Tables that are loaded again while the policy is followed: with aborted write ids, compacted and plain."""
DEADLINE_S = 600.0


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with killable_stack(tmp_path_factory.mktemp("outages")) as stack:
        yield stack


def write_source(stack: Stack, db: str) -> list[int]:
    """Create tables of every kind; return the transactions that hold a write id and are still open."""
    with stack.source.sql() as sql, closing(WritingMetastore([stack.source.metastore.uri])) as writer:
        made = write_many(sql, writer, db, TABLES)
        sql.run(f"create table {db}.visits (id int, page string) partitioned by (dt string) {ACID}")
        roll_back(sql, f"insert into {db}.visits values (666,'/never','x')")
        sql.run(f"insert into {db}.visits values (1,'/a','x'),(2,'/b','y')")
        sql.run(f"delete from {db}.visits where id = 2")
        sql.run(f"create table {db}.plain (id int) {PLAIN}")
        sql.run(f"insert into {db}.plain values (1)")
        sql.run(f"create view {db}.seen as select id from {db}.visits")
    return made.held


def write_more(replica: KilledReplica, number: int) -> None:
    """Write into tables that are loaded and into others, in one transaction and in several, and abort one."""
    with replica.stack.source.sql() as sql:
        roll_back(sql, f"insert into {replica.db}.t0001 values (666)")
    replica.write(
        f"insert into {{db}}.plain values ({number})",
        f"from {{db}}.t0000 s insert into {{db}}.t0001 select {number} insert into {{db}}.t0008 select "
        f"{number}",
        f"update {{db}}.t0002 set id = {number} where id < {number}",
        f"insert into {{db}}.t0007 values ({number})",
        f"insert into {{db}}.visits values ({number},'/more','x'),({number},'/more','n{number}')",
    )


def check_equal(replica: KilledReplica) -> None:
    """Compare rows, definitions, write ids, statistics, and all files with their checksums."""
    stack, db = replica.stack, replica.db
    verified = replica.daemon.command("verify", "shop", "--checksums", "--json")
    assert verified.returncode == 0, verified.stdout[-5000:] + verified.stderr[-2000:]
    with (
        closing(Metastore([stack.source.metastore.uri])) as source,
        closing(Metastore([stack.target.metastore.uri])) as target,
        stack.source.sql() as ours,
        stack.target.sql() as theirs,
    ):
        tables = source.table_names(db)
        assert len(json.loads(verified.stdout)["tables"]) == 1 + len(tables), "the database and its tables"
        sides = Side(source, ours, db), Side(target, theirs, replica.target_db)
        assert compare_databases(*sides, {}).list_differences() == []
    engines = stack.source.engine.address, stack.target.engine.address
    assert find_unequal_rows((engines[0], db), (engines[1], replica.target_db), tables) == []


def strike(replica: KilledReplica, steps: HeldSteps, victim: str) -> None:
    """Kill the component wherever a thread waits, let the thread continue without it, and start it again."""
    for step in steps.held():
        replica.kill(victim)
        steps.release(step)
        replica.start(victim)
        log.info("%s killed at %s", victim, step)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_component_is_killed_at_every_step_of_a_bootstrap(
    victim: str, own_stack: Stack, tmp_path: Path
) -> None:
    db = f"boot_{uuid.uuid4().hex[:8]}"
    held = write_source(own_stack, db)
    replica, steps = KilledReplica.of(own_stack, db, tmp_path), HeldSteps(tmp_path / "steps")
    replica.daemon.environment = steps.environment

    def bootstrapped() -> bool:
        if held and steps.held():
            with closing(WritingMetastore([own_stack.source.metastore.uri])) as writer:
                writer.commit_txn(held.pop())
        strike(replica, steps, victim)
        return replica.loads_left() == [] and not steps.held()

    steps.arm(BOOTSTRAP_STEPS)
    with replica.daemon:
        wait_until(bootstrapped, DEADLINE_S)
        assert steps.missing() == []
        write_more(replica, 11)
        replica.settle()
        check_equal(replica)
    assert replica.kills[victim] >= len(BOOTSTRAP_STEPS)


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_component_is_killed_at_every_step_of_loads_while_the_policy_is_followed(
    victim: str, own_stack: Stack, tmp_path: Path
) -> None:
    """At one step of a load, replay passes its event, so that the tables must catch up; at the chosen step,
    the component is killed."""
    db = f"load_{uuid.uuid4().hex[:8]}"
    held = write_source(own_stack, db)
    with closing(WritingMetastore([own_stack.source.metastore.uri])) as writer:
        writer.commit_txn(held.pop())
    replica, steps = KilledReplica.of(own_stack, db, tmp_path), HeldSteps(tmp_path / "steps")
    replica.daemon.environment = steps.environment
    inbox = replica.daemon.state_dir / "requests" / "replication-shop"
    with replica.daemon:
        wait_until(lambda: replica.loads_left() == [])
        for number, step in enumerate(FOLLOWING_STEPS, 11):
            steps.arm({OVERTAKEN, step})
            tables = ["visits", RELOADED[number % len(RELOADED)]]
            send_request(inbox, {"do": "load", "tables": tables, "reason": "repair"}, 60)

            def loaded(number: int = number, step: str = step) -> bool:
                if OVERTAKEN in steps.held():
                    write_more(replica, number)
                    replica.daemon.applied(own_stack.source.metastore.last_event_id())
                    if step != OVERTAKEN:
                        steps.release(OVERTAKEN)
                strike(replica, steps, victim)
                return replica.loads_left() == [] and not steps.missing() and not steps.held()

            wait_until(loaded, DEADLINE_S)
        replica.settle()
        check_equal(replica)
    assert replica.kills[victim] >= len(FOLLOWING_STEPS)
