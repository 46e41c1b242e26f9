"""The file systems of both sides are full, read-only or gone while the daemon runs; no table is quarantined,
and nothing is lost."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from daemon.process.inbox import send_request
from dev.stack import cli, preflight
from dev.stack.cluster import Stack
from tests.builders.components.mounts import MountedDirectory, mounted
from tests.builders.daemon.killed_stack import KilledReplica, is_in_trouble, wait_until
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.small_workload import ACID, PLAIN, create_source


pytestmark = pytest.mark.crash

TABLES = ["orders", "visits", "plain", "other"]
OUTAGE_S = 20.0
LONG_OUTAGE_S = 120.0


@dataclass
class Mounts:
    """A stack whose warehouses are file systems of their own."""

    stack: Stack
    source: MountedDirectory
    target: MountedDirectory

    def outages(self) -> dict[str, tuple[Callable[[], None], Callable[[], None]]]:
        """Return how each outage begins and ends."""
        return {
            "the target is full": (self.target.fill, self.target.free),
            "the target is read-only": (self.target.make_read_only, self.target.make_writable),
            "the target is gone": (self.target.unmount, self.target.mount),
            "the source is gone": (self.source.unmount, self.source.mount),
        }


@pytest.fixture(scope="module")
def mounts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounts]:
    directory = tmp_path_factory.mktemp("mounts")
    preflight.check_all(directory)
    cli.fetch_all()
    with ExitStack() as cleanup:
        stack = Stack(directory / "stack")
        layouts = stack.source.metastore.layout, stack.target.metastore.layout
        source, target = (
            cleanup.enter_context(mounted(layout.warehouse, directory / layout.root.name))
            for layout in layouts
        )
        stack.start(engines=True)
        cleanup.callback(stack.stop)
        yield Mounts(stack, source, target)


def require_equal(replica: KilledReplica) -> None:
    replica.settle()
    ours, theirs = replica.stack.source.engine.address, replica.stack.target.engine.address
    assert find_unequal_rows((ours, replica.db), (theirs, replica.target_db), TABLES) == []
    verified = replica.daemon.command("verify", "shop", "--checksums")
    assert verified.returncode == 0, verified.stdout[-3000:]


def create_tables(stack: Stack, db: str) -> None:
    with stack.source.sql() as sql:
        create_source(sql, db)
        for table in ("orders", "other"):
            sql.run(f"create table {db}.{table} (id int) {ACID}")
            sql.run(f"insert into {db}.{table} values (1)")
        sql.run(f"create table {db}.visits (id int) partitioned by (dt string) {ACID}")
        sql.run(f"insert into {db}.visits values (1,'x'),(2,'y')")
        sql.run(f"create table {db}.plain (id int) {PLAIN}")
        sql.run(f"insert into {db}.plain values (1)")


def last_for(replica: KilledReplica, seconds: float) -> None:
    """Let an outage last, and require that no table is quarantined."""
    threading.Event().wait(seconds)
    assert replica.daemon.status_when(lambda _: True).projections[0].failures == ()


@pytest.mark.parametrize(
    "outage", ["the target is full", "the target is read-only", "the target is gone", "the source is gone"]
)
def test_a_bootstrap_waits_for_a_file_system_and_ends_equal(
    outage: str, mounts: Mounts, tmp_path: Path
) -> None:
    db = f"fs_{uuid.uuid4().hex[:8]}"
    create_tables(mounts.stack, db)
    replica = KilledReplica.of(mounts.stack, db, tmp_path)
    begin, end = mounts.outages()[outage]
    begin()
    with replica.daemon:
        try:
            replica.daemon.status_when(is_in_trouble)
            last_for(replica, OUTAGE_S)
        finally:
            end()  # the other tests need the file system
        wait_until(lambda: replica.loads_left() == [])
        require_equal(replica)


def test_replay_and_loads_wait_for_a_file_system_and_end_equal(mounts: Mounts, tmp_path: Path) -> None:
    """Each outage meets new rows of every kind of table, a new table and partition, and the load of a
    table."""
    db = f"fs_{uuid.uuid4().hex[:8]}"
    create_tables(mounts.stack, db)
    replica = KilledReplica.of(mounts.stack, db, tmp_path)
    inbox = replica.daemon.state_dir / "requests" / "replication-shop"
    with replica.daemon:
        wait_until(lambda: replica.loads_left() == [])
        for number, (begin, end) in enumerate(mounts.outages().values(), 2):
            send_request(inbox, {"do": "pause"}, 60)
            replica.write(
                f"insert into {{db}}.orders values ({number})",
                f"insert into {{db}}.visits values ({number},'x'),({number},'n{number}')",
                f"insert into {{db}}.plain values ({number})",
                f"update {{db}}.orders set id = {number * 10} where id = {number - 1}",
                f"create table {{db}}.made{number} (id int) {ACID}",
                f"insert into {{db}}.made{number} values ({number})",
            )
            begin()
            send_request(inbox, {"do": "load", "tables": ["other"], "reason": "repair"}, 60)
            send_request(inbox, {"do": "resume"}, 60)
            replica.daemon.status_when(is_in_trouble)
            last_for(replica, LONG_OUTAGE_S if number == 2 else OUTAGE_S)
            end()
            require_equal(replica)
