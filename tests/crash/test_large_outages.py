"""The bootstrap of a thousand tables by the daemon while writers continue; daemon, metastores and broker are
killed in turn."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from dev.demo.compare import Side, compare_databases
from dev.fixtures.writing_client import WritingMetastore
from dev.stack.cluster import Stack
from dev.stack.errors import StackError
from handlers.metastore.client import Metastore
from tests.builders.daemon.killed_stack import VICTIMS, KilledReplica, killable_stack, wait_until
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.many_tables import ManyTables, write_many


log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

TABLES = 1_000
ROUNDS = 5
"""How often each component is killed while tables are loaded."""
ABANDONED_S = 20.0
"""After this time a load aborts transactions that a killed metastore left open."""


@pytest.fixture(scope="module")
def own_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    with killable_stack(tmp_path_factory.mktemp("large")) as stack:
        yield stack


def write_until(stop: threading.Event, stack: Stack, made: ManyTables, done: list[int]) -> None:
    """Insert into table after table, also while the metastore is away; a statement that fails is not
    repeated."""
    number = 0
    while not stop.is_set():
        try:
            with stack.source.sql() as sql:
                while not stop.is_set():
                    number += 1
                    table = made.names[number * 37 % len(made.names)]
                    sql.run(f"insert into {made.db}.{table} values ({number})")
                    done.append(number)
        except StackError as error:
            log.info("the writer continues after: %s", str(error)[:200])


def test_a_bootstrap_of_a_thousand_tables_survives_kills_of_everything(
    own_stack: Stack, tmp_path: Path
) -> None:
    db = f"large_{uuid.uuid4().hex[:8]}"
    with own_stack.source.sql() as sql, closing(WritingMetastore([own_stack.source.metastore.uri])) as writer:
        made = write_many(sql, writer, db, TABLES)
        replica = KilledReplica.of(
            own_stack, db, tmp_path, open_transaction_timeout_s=ABANDONED_S, abort_open_transactions=True
        )
    stop, done = threading.Event(), list[int]()
    writing = threading.Thread(target=write_until, args=(stop, own_stack, made, done))
    writing.start()
    started = time.monotonic()
    try:
        with replica.daemon:
            _kill_in_turn(replica)
            wait_until(lambda: replica.loads_left() == [], 1_800)
            seconds = time.monotonic() - started
            stop.set()
            writing.join()
            replica.settle()
            log.info("%d tables in %.0f s, kills: %s, inserts: %d", TABLES, seconds, replica.kills, len(done))
            assert len(done) > ROUNDS
            _check_equal(replica, made)
    finally:
        stop.set()
        writing.join()


def _kill_in_turn(replica: KilledReplica) -> None:
    """Kill one component after another, each time when directories of further tables are on the target."""
    directory = replica.stack.target.metastore.layout.warehouse / f"{replica.target_db}.db"
    kills = [victim for _ in range(ROUNDS) for victim in VICTIMS]
    for number, victim in enumerate(kills, 1):
        tables = number * TABLES // (len(kills) + 1)
        wait_until(lambda tables=tables: len(list(directory.glob("*"))) >= tables, 900)  # type: ignore[misc]
        replica.kill(victim)
        replica.start(victim)
        log.info("%s killed after %d tables", victim, tables)


def _check_equal(replica: KilledReplica, made: ManyTables) -> None:
    stack = replica.stack
    ours, theirs = (stack.source.engine.address, made.db), (stack.target.engine.address, replica.target_db)
    assert find_unequal_rows(ours, theirs, made.names) == []
    with (
        closing(Metastore([stack.source.metastore.uri])) as source,
        closing(Metastore([stack.target.metastore.uri])) as target,
        stack.source.sql() as sql,
    ):
        sides = Side(source, sql, made.db), Side(target, sql, replica.target_db)
        assert compare_databases(*sides, {}).list_differences() == []
