"""HDFS and the daemon are killed at random while a replica on HDFS follows its source; no table is
quarantined, and nothing is lost."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

from daemon.process.inbox import send_request
from dev.stack.cluster import HiveCluster, Stack
from dev.stack.errors import ComponentFailed
from dev.stack.process.component import Component
from dev.stack.servers.hdfs import Hdfs
from tests.builders.daemon.killed_stack import KilledReplica, is_in_trouble, wait_until
from tests.builders.daemon.running_daemon import RunningDaemon
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.small_workload import ACID, PLAIN, create_source


log = logging.getLogger(__name__)
SEED: Final = 7
ROUNDS: Final = 4
TABLES: Final = ["orders", "visits", "plain", "other"]


def create_tables(stack: Stack, db: str) -> None:
    with stack.source.sql() as sql:
        create_source(sql, db)
        sql.run(f"create table {db}.orders (id int) {ACID}")
        sql.run(f"create table {db}.other (id int) {ACID}")
        sql.run(f"insert into {db}.other values (1),(2)")
        sql.run(f"create table {db}.visits (id int) partitioned by (dt string) {ACID}")
        sql.run(f"create table {db}.plain (id int) {PLAIN}")


def list_changes(number: int) -> tuple[str, ...]:
    """Return the statements of one round: every kind of table, a new partition and a new table."""
    return (
        f"insert into {{db}}.orders values ({number})",
        f"insert into {{db}}.visits values ({number},'x'),({number},'n{number}')",
        f"insert into {{db}}.plain values ({number})",
        f"update {{db}}.orders set id = {number * 100} where id = {number - 1}",
        f"create table {{db}}.made{number} (id int) {ACID}",
        f"insert into {{db}}.made{number} values ({number})",
    )


def test_replay_survives_random_kills_of_hdfs_and_of_the_daemon(
    clusters: Stack, hdfs: Hdfs, tmp_path: Path
) -> None:
    """Each round is written while the replica pauses.

    In one half of the rounds, servers of HDFS are down from the start until the replica reports it. In the
    other half, servers and daemon are killed after a random part of the round, and started again.
    """
    random, db = Random(SEED), f"outage_{uuid.uuid4().hex[:8]}"  # noqa: S311 - a test
    servers = {"NameNode": hdfs.name_node, "DataNode": hdfs.data_nodes[0]}
    create_tables(clusters, db)
    replica = KilledReplica.of(clusters, db, tmp_path)
    inbox = replica.daemon.state_dir / "requests" / "replication-shop"
    with replica.daemon:
        wait_until(lambda: replica.loads_left() == [])
        for number in range(1, ROUNDS + 1):
            before = clusters.source.metastore.last_event_id()
            send_request(inbox, {"do": "pause"}, 60)
            replica.write(*list_changes(number))
            send_request(inbox, {"do": "load", "tables": ["other"], "reason": "repair"}, 60)
            victims = random.sample(list(servers), random.randint(1, 2))
            log.info("round %d: %s", number, victims)
            if number % 2:
                kill_all(servers[victim] for victim in victims)
                send_request(inbox, {"do": "resume"}, 60)
                replica.daemon.status_when(is_in_trouble)
            else:
                send_request(inbox, {"do": "resume"}, 60)
                replica.daemon.applied(random.randrange(before, clusters.source.metastore.last_event_id()))
                kill_all([*(servers[victim] for victim in victims), replica.daemon])
                replica.daemon.start()
            for victim in victims:
                servers[victim].start()
            replica.settle()
    for cluster in (clusters.source, clusters.target):
        wait_until(partial(answers, cluster))
    made = [f"made{number}" for number in range(1, ROUNDS + 1)]
    ours, theirs = clusters.source.engine.address, clusters.target.engine.address
    assert find_unequal_rows((ours, replica.db), (theirs, replica.target_db), TABLES + made) == []
    with replica.daemon:
        verified = replica.daemon.command("verify", "shop", "--checksums")
    assert verified.returncode == 0, verified.stdout[-3000:]


def answers(cluster: HiveCluster) -> bool:
    """Whether the SQL engine opens a session; the first one over a connection to the NameNode that was killed
    fails."""
    try:
        with cluster.sql() as sql:
            sql.run("show databases")
    except ComponentFailed:
        return False
    return True


def kill_all(processes: Iterable[Component | RunningDaemon]) -> None:
    for process in processes:
        process.kill()
