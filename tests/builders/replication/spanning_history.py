"""A random history over several databases whose transactions span two of them, followed by one policy for
each database.

One process follows all policies. Kills come while some of them read together and others on their own,
because policies are paused and resumed at random.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import yaml

from dev.stack.cluster import Stack
from tests.builders.daemon.killed_stack import KilledReplica, wait_until
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.killed_history import abort_abandoned, await_ended, run_and_kill
from tests.builders.replication.random_tables import Statement
from tests.builders.replication.random_writers import RandomWriter
from tests.builders.replication.small_workload import ACID, create_source


DATABASES: Final = 5
WRITERS: Final = 3
TABLES: Final = ("t", "p")
"""A plain table and one with partitions, in each database; both are transactional."""


@dataclass
class SpanningStatements:
    """Statements over the tables of several databases (``random_writers.Statements``)."""

    databases: Sequence[str]
    random: Random
    ids: Random = field(init=False)

    def __post_init__(self) -> None:
        self.ids = Random(self.random.random())  # noqa: S311 - repeatable choices of a test

    def choose(self) -> tuple[str, Statement]:
        """Return a kind and a statement of it; most insert into two databases in one transaction."""
        kind = self.random.choices(
            ("span", "roll back", "insert", "update", "delete", "drop"), (8, 2, 4, 2, 1, 1)
        )[0]
        one, other = self.random.sample(list(self.databases), 2)
        number, day = self.ids.randrange(1_000), self.random.choice("abc")
        both = (
            f"from (select {number} as id, 'x' as note) s"
            f" insert into {one}.t select id, note"
            f" insert into {other}.p partition (dt='{day}') select id, note"
        )
        texts = {
            "span": both,
            "roll back": both,
            "insert": f"insert into {one}.p partition (dt='{day}') values ({number}, 'y')",
            "update": f"update {one}.t set note = 'z{number}' where id % 3 = {number % 3}",
            "delete": f"delete from {one}.p where id % 5 = {number % 5}",
            "drop": f"alter table {one}.p drop if exists partition (dt='{day}')",
        }
        return kind, Statement(texts[kind], is_rolled_back=kind == "roll back")


def check_spanning_history(stack: Stack, seed: int, directory: Path, kills: int) -> None:
    """Follow a history with ``kills`` kills, and require that every replica ends equal to its database and
    that no table was quarantined."""
    names = [f"spanning_{seed}_{letter}" for letter in "abcde"[:DATABASES]]
    with stack.source.sql() as sql:
        for db in names:
            create_source(sql, db)
            sql.run(f"create table {db}.t (id int, note string) {ACID}")
            sql.run(f"create table {db}.p (id int, note string) partitioned by (dt string) {ACID}")
    replica = KilledReplica.of(stack, names[0], directory)
    _follow_all(replica, names)
    random, stop = Random(seed), threading.Event()  # noqa: S311 - a test
    writers = [
        RandomWriter(
            SpanningStatements(names, Random(f"{seed}/{number}")),  # noqa: S311 - a test
            stack.source.sql,
            stop,
        )
        for number in range(WRITERS)
    ]
    with replica.daemon:
        with _pausing(replica, names, random):
            counts = run_and_kill(replica, writers, stop, random, kills)
        for db in names:
            wait_until(partial(_resume, replica, db))
        abort_abandoned(replica)
        _await_applied(replica)
        await_ended(replica)
        found = [line for db in names for line in _find_differences(replica, db)]
        assert not found, "\n".join(found)
    assert counts["span", "done"] > kills, counts


def _follow_all(replica: KilledReplica, names: Sequence[str]) -> None:
    values = yaml.safe_load(replica.daemon.config.read_text())
    (policy,) = values["policies"].values()
    values["policies"] = {db: {**policy, "database": db, "target_database": f"{db}_r"} for db in names}
    replica.daemon.config.write_text(yaml.safe_dump(values))


class _pausing:  # noqa: N801 - a context
    """Pauses and resumes policies during the block."""

    def __init__(self, replica: KilledReplica, names: Sequence[str], random: Random) -> None:
        self._replica, self._names = replica, names
        self._random = Random(random.random())  # noqa: S311 - a test
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        """The commands fail or wait while the daemon or a metastore is down, which is part of the history."""
        while not self._stop.wait(self._random.random() * 2):
            action = self._random.choice(("pause", "resume", "resume"))
            with suppress(subprocess.TimeoutExpired):
                self._replica.daemon.command(action, self._random.choice(list(self._names)))


def _resume(replica: KilledReplica, db: str) -> bool:
    return replica.daemon.command("resume", db).returncode == 0


def _await_applied(replica: KilledReplica) -> None:
    """Wait until every policy follows, has nothing to load and has applied what the source has logged."""
    newest = replica.stack.source.metastore.last_event_id()
    status = replica.daemon.status_when(
        lambda status: (
            all(each.state == "following" and (each.event_id or 0) >= newest for each in status.projections)
            and not status.sections["loads"]
        )
    )
    assert not [failure for each in status.projections for failure in each.failures]


def _find_differences(replica: KilledReplica, db: str) -> list[str]:
    stack = replica.stack
    found = find_unequal_rows(
        (stack.source.engine.address, db), (stack.target.engine.address, f"{db}_r"), TABLES
    )
    verified = replica.daemon.command("verify", db, "--checksums")
    return found if verified.returncode == 0 else [*found, verified.stdout[-5000:] + verified.stderr[-2000:]]
