"""Cases of a backlog of small transactions: the time to drain it, compared with a bare loop, and the number
of calls for each transaction.

The bare loop opens a transaction, allocates a write id and commits, on the same metastore and with the same
client, one transaction after the other. It copies no file and verifies nothing. The drain can still be
faster, because it allocates many write ids at once, and opens transactions while others are being committed.
Both run in turn.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Final, Self

from bench.events.environment import make_name, open_stack, say
from bench.events.writer import TABLE, Writer
from bench.replication.policies import open_policy
from bench.report import Row, row
from dev.fixtures.hive_tables import ACID, a_table
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.endpoints import Endpoints
from handlers.events import Event, TxnCommitted
from handlers.structs.objects import Database


ROUNDS: Final = 5
RATIO_MIN: Final = 0.6
CALLS_MAX: Final = 4


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        yield from measure_drain(endpoints, each_round=20 if quick else 100)


def measure_drain(endpoints: Endpoints, *, each_round: int) -> Iterator[Row]:
    """Write a backlog, then drain it in rounds. Between two rounds, run a bare loop of the same number of
    transactions.
    """
    say(f"drain: {ROUNDS + 1} rounds of {each_round} transactions")
    db = make_name("drain")
    drained, bare = [], []
    with open_policy(endpoints, db) as policy, BareLoop(endpoints.target.metastore, f"{db}_bare") as loop:
        with closing(Writer(endpoints.source.metastore, db)) as writer:
            writer.create()
            for _ in range((ROUNDS + 1) * each_round):
                writer.insert()
        warm_up, *rounds = split_at_commits(policy.read_events(), each_round)
        policy.apply(warm_up)
        loop.run(each_round)
        policy.target_calls.clear()
        for events in rounds:
            began_s = time.perf_counter()
            policy.apply(events)
            drained.append((time.perf_counter() - began_s) / each_round * 1_000)
            bare.append(loop.run(each_round) / each_round * 1_000)
        calls = policy.target_calls.total() / (each_round * len(rounds))
    rival = ("bare loop of open, allocate and commit", statistics.median(bare))
    yield row("drain", statistics.median(drained), "ms/txn", times=RATIO_MIN, rival=rival)
    yield row("calls_per_small_commit", calls, "calls", at_most=CALLS_MAX)


def split_at_commits(events: Sequence[Event], commits: int) -> list[list[Event]]:
    """Split the events after every ``commits`` commits, and omit an incomplete rest."""
    parts: list[list[Event]] = []
    part: list[Event] = []
    ended = 0
    for event in events:
        part.append(event)
        ended += isinstance(event, TxnCommitted) and event.table is None
        if ended == commits:
            parts.append(part)
            part, ended = [], 0
    return parts


class BareLoop:
    """Runs transactions with one write id each, in a separate table, without files."""

    def __init__(self, uri: str, db: str) -> None:
        self._metastore = WritingMetastore(uri)
        self._db = db

    def __enter__(self) -> Self:
        self._metastore.create_database(Database(name=self._db))
        self._metastore.create_table(a_table(self._db, TABLE, parameters=ACID))
        return self

    def __exit__(self, *_: object) -> None:
        self._metastore.close()

    def run(self, count: int) -> float:
        """Return the seconds of ``count`` transactions."""
        began_s = time.perf_counter()
        for _ in range(count):
            (txn,) = self._metastore.open_txns()
            self._metastore.allocate_write_ids(self._db, TABLE, [txn])
            self._metastore.commit_txn(txn)
        return time.perf_counter() - began_s
