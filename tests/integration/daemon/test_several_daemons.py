"""Daemons that divide the policies of one source: one is killed, their number changes while a writer goes on,
and two of them follow the same policy for a while."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import cycle
from pathlib import Path

import pytest
import yaml

from daemon.config.settings.daemons import DaemonsConfig
from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID, create_source


def share(daemon: RunningDaemon, dbs: Sequence[str], *, count: int, ordinal: int) -> None:
    """Configure one of ``count`` daemons for the policies of all databases, each named after its database."""
    values = yaml.safe_load(daemon.config.read_text())
    ends = {"source": "lake", "target": "dr", "bootstrap": "auto"}
    values["policies"] = {db: {**ends, "database": db, "target_database": f"{db}_r"} for db in dbs}
    values["daemons"] = {"count": count, "ordinal": ordinal}
    daemon.config.write_text(yaml.safe_dump(values))


def owned(dbs: Sequence[str], *, count: int, ordinal: int) -> set[str]:
    return {db for db in dbs if DaemonsConfig(count=count).owner_of(db) == ordinal}


def states(status: DaemonStatus) -> dict[str, str]:
    return {view.name.partition(":")[2]: view.state for view in status.projections}


def all_follow(daemon: RunningDaemon, dbs: set[str], event_id: int = 0) -> None:
    """Wait until the daemon has exactly these policies, and each has applied the event."""
    daemon.status_when(
        lambda status: (
            set(states(status)) == dbs
            and all(
                view.state == "following" and (view.event_id or 0) >= event_id for view in status.projections
            )
        )
    )


@contextmanager
def writing(sql: Session, dbs: Sequence[str]) -> Iterator[None]:
    """Insert into one database after the other, in a thread, during the block."""
    stopping, numbers = threading.Event(), iter(range(100, 10**6))

    def write() -> None:
        for db in cycle(dbs):
            if stopping.is_set():
                return
            sql.run(f"insert into {db}.t values ({next(numbers)})")

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield
    finally:
        stopping.set()
        thread.join()


class Daemons:
    """Three daemons with the policies of all databases; the number that divide them changes."""

    def __init__(self, directory: Path, stack: Endpoints, topic: str, dbs: Sequence[str]) -> None:
        self.dbs = dbs
        self.all: list[RunningDaemon] = []
        for name in ("0", "1", "2"):
            (directory / name).mkdir()
            self.all.append(configured(directory / name, stack, topic=topic, database=dbs[0]))

    def configure(self, count: int, ordinals: Sequence[int]) -> None:
        for ordinal in ordinals:
            share(self.all[ordinal], self.dbs, count=count, ordinal=ordinal)

    def stop(self, ordinals: Sequence[int]) -> None:
        for ordinal in ordinals:
            assert self.all[ordinal].end(signal.SIGTERM) == 0

    def start(self, count: int, ordinals: Sequence[int]) -> None:
        """Start daemons as members of ``count``, and wait until they follow their policies."""
        self.configure(count, ordinals)
        for ordinal in ordinals:
            self.all[ordinal].start()
        for ordinal in ordinals:
            all_follow(self.all[ordinal], owned(self.dbs, count=count, ordinal=ordinal))

    def kill(self) -> None:
        for daemon in self.all:
            if daemon.process is not None:
                daemon.kill()


@pytest.mark.long
def test_policies_move_between_daemons_without_loading_a_table_again(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    dbs = choose_databases(database)
    for db in dbs:
        create_source(source_sql, db)
        source_sql.run(f"create table {db}.t (id int) {ACID}")
        source_sql.run(f"insert into {db}.t values (1)")
    daemons = Daemons(tmp_path, stack, topic, dbs)
    with ExitStack() as end:
        end.callback(daemons.kill)
        daemons.start(2, [0, 1])
        with writing(source_sql, dbs):
            daemons.all[1].kill()
            daemons.start(2, [1])
            # The third one starts while the others do not know of it, as in a rolling update.
            daemons.start(3, [2])
            await_fenced(daemons, owned(dbs, count=3, ordinal=2))
            for ordinal in (0, 1):
                daemons.stop([ordinal])
                daemons.start(3, [ordinal])
            daemons.stop([2, 1, 0])
            daemons.start(1, [0])
            daemons.stop([0])
            daemons.start(2, [0, 1])  # the state of the second one is older than its targets
            daemons.stop([1, 0])
            daemons.start(1, [0])
        with Metastore([stack.source.metastore]) as source:
            newest = source.current_event_id()
        all_follow(daemons.all[0], set(dbs), newest)
        for db in dbs:
            verified = daemons.all[0].command("verify", db)
            assert verified.returncode == 0, verified.stdout + verified.stderr
    loads = sum(each.read_text().count('"table loaded"') for each in tmp_path.glob("*/daemon.log"))
    assert loads == len(dbs), "each table is loaded once, by its bootstrap"


@pytest.mark.long
def test_a_policy_that_moves_to_another_daemon_stays_paused_promoted_or_retired(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    dbs = choose_databases(database)
    for db in dbs:
        create_source(source_sql, db)
    paused, promoted, retired = sorted(owned(dbs, count=2, ordinal=1))
    daemons = Daemons(tmp_path, stack, topic, dbs)
    with ExitStack() as end:
        end.callback(daemons.kill)
        daemons.start(1, [0])
        done = daemons.all[0].command("pause", paused)
        assert done.returncode == 0, done.stderr
        done = daemons.all[0].command("retire", retired)
        assert done.returncode == 0, done.stderr
        done = daemons.all[0].command("promote", promoted, "--yes")
        assert done.returncode == 0, done.stderr
        daemons.stop([0])
        daemons.configure(2, [1])
        daemons.all[1].start()
        expected = {paused: "paused", promoted: "promoted", retired: "retired"}
        await_states(daemons.all[1], expected)
        done = daemons.all[1].command("resume", paused)
        assert done.returncode == 0, done.stderr
        await_states(daemons.all[1], {**expected, paused: "following"})


def await_fenced(daemons: Daemons, moved: set[str]) -> None:
    """Wait until the two daemons of before have lost exactly the policies that moved to the third one."""
    for ordinal in (0, 1):
        own = owned(daemons.dbs, count=2, ordinal=ordinal)
        await_states(daemons.all[ordinal], {db: "failed" if db in moved else "following" for db in own})
    await_states(daemons.all[2], dict.fromkeys(moved, "following"))


def await_states(daemon: RunningDaemon, expected: dict[str, str]) -> None:
    daemon.status_when(lambda status: states(status) == expected)


def choose_databases(prefix: str) -> list[str]:
    """Return six names of which each of two and of three daemons has some, and both of the two lose one."""
    two, three = DaemonsConfig(count=2), DaemonsConfig(count=3)
    names = [f"{prefix}_{index}" for index in range(200)]
    wanted = [(0, 0), (0, 0), (0, 2), (1, 1), (1, 1), (1, 2)]
    chosen: list[str] = []
    for ends in wanted:
        chosen.append(
            next(n for n in names if n not in chosen and (two.owner_of(n), three.owner_of(n)) == ends)
        )
    return chosen
