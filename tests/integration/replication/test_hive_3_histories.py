"""Random histories of three writers on a Hive 3.1 with compactions, relayed and replayed at random times, and
replicas that are killed: in the end every table equals its source, and no aborted row was visible before.

``TIDELINE_HIVE_3_ROUNDS`` sets the length; ``make hive-3-histories`` runs long ones.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Final

import pytest

from dev.stack.errors import SqlFailed
from dev.stack.hive.sql_session import Session
from handlers.replication.batch import batch_replay
from handlers.replication.transactions import transaction_replay
from handlers.structs.transactions import CompactionType
from state.errors import TidelineError
from state.store.memory import MemoryStore
from tests.builders.components.hive_3 import CompactionFailed, compact, read_rows
from tests.builders.replication.hive_3_source import Hive3Source, RelayedReplica
from tests.builders.replication.hive_3_statements import ABORTED, STATEMENTS, TABLES, fill
from tests.builders.replication.small_workload import roll_back
from tests.builders.replication.stepped_loads import SteppedLoads


pytestmark = [pytest.mark.old_hive, pytest.mark.long]

ROUNDS: Final = int(os.environ.get("TIDELINE_HIVE_3_ROUNDS", "12"))
SEEDS: Final = [int(seed) for seed in os.environ.get("TIDELINE_HIVE_3_SEEDS", "1").split(",")]
WRITERS: Final = 3


class Killed(BaseException):
    """A replica was killed at a failpoint."""


@dataclass
class History:
    """A source that is being written, and the replica that follows it."""

    old: Hive3Source
    target_sql: Session
    random: random.Random
    sessions: list[Session]
    monkeypatch: pytest.MonkeyPatch
    live: RelayedReplica = field(init=False)
    passes: int = 0

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.live = self.old.open_replica(store=self.store)
        for module in (transaction_replay, batch_replay):
            if hasattr(module, "failpoint"):
                self.monkeypatch.setattr(module, "failpoint", self._pass)

    def _pass(self, name: str) -> None:
        self.passes -= 1
        if self.passes == 0:
            raise Killed(name)

    def write(self) -> None:
        """Run one to three statements at the same time, or a compaction; conflicts abort some."""
        chance = self.random.random()
        if chance < 0.15:
            self._compact()
        elif chance < 0.25:
            roll_back(self.old.sql, fill(self.random.choice(ABORTED), self.old.db, self.random))
        else:
            count = self.random.randint(1, WRITERS)
            chosen = [fill(self.random.choice(STATEMENTS), self.old.db, self.random) for _ in range(count)]
            with ThreadPoolExecutor(WRITERS) as pool:
                list(pool.map(self._run, self.sessions, chosen))

    @staticmethod
    def _run(session: Session, statement: str) -> None:
        with suppress(SqlFailed):  # conflicts of two updates, and partitions that do not exist
            session.run(statement)

    def _compact(self) -> None:
        kind = self.random.choice([CompactionType.MAJOR, CompactionType.MINOR])
        table = self.random.choice(["t", "b", "p"])
        name = f"dt=d{self.random.randint(0, 3)}" if table == "p" else None
        # the partition does not exist, or Hive cannot read it any more (reference: hive-3.1-source.md §3)
        with suppress(TidelineError, CompactionFailed):
            compact(self.old.metastore, self.old.db, table, kind, partition_name=name)

    def follow(self) -> None:
        """Replay what was relayed; sometimes the replica is killed and starts again."""
        self.passes = self.random.randint(1, 40) if self.random.random() < 0.4 else 0
        try:
            self.live.follow()
        except Killed:
            self.passes = 0
            self.live.replica.projection.close()  # records nothing, because the replica has failed
            self.live = self.old.open_replica(store=self.store, again=True)
            self.live.follow()
        self.passes = 0
        if self.random.random() < 0.5:
            self.load()
        for table in ("t", "p", "lines"):
            if not self.live.replica.context.tables.loads.is_waiting(table):
                name = f"{self.live.replica.policy.target_db}.{table}"
                assert "666" not in {row[0] for row in read_rows(self.target_sql, name)}

    def load(self) -> None:
        """Load the tables that wait."""
        SteppedLoads(self.live.replica, self.old.events).finish()


@pytest.mark.parametrize("seed", SEEDS)
def test_a_random_history_equals_its_source_in_the_end(
    old: Hive3Source, target_sql: Session, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    with ExitStack() as closing_all:
        sessions = [closing_all.enter_context(old.cluster.sql()) for _ in range(WRITERS)]
        old.run(*(f"create table {{db}}.{name} {columns}" for name, columns in TABLES.items()))
        chance = random.Random(seed)  # noqa: S311 - a repeatable history
        history = History(old, target_sql, chance, sessions, monkeypatch)
        history.write()
        for _ in range(ROUNDS):
            history.write()
            if history.random.random() < 0.6:
                old.relay()
            if history.random.random() < 0.4 and old.records:
                history.follow()
        old.relay()
        history.follow()
        history.load()
        old.assert_equal(history.live.replica, target_sql, *TABLES)
