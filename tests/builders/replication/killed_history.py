"""A random history of several writers that a daemon follows while it, the metastores and the broker are
killed."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Final

from dev.fixtures.writing_client import WritingMetastore
from dev.stack.cluster import Stack
from handlers.metastore.client import Metastore
from handlers.metastore.session import CLIENT_NAME
from handlers.structs.transactions import TxnState
from tests.builders.daemon.killed_stack import KilledReplica, as_uri, wait_until
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.random_statements import KINDS, RandomStatements
from tests.builders.replication.random_tables import KINDS as TABLES
from tests.builders.replication.random_tables import Tables, Writing
from tests.builders.replication.random_writers import RandomWriter
from tests.builders.replication.small_workload import create_source


log = logging.getLogger(__name__)

WRITERS: Final = 3
KILLS: Final = 12
ABANDONED: Final = {"hive.txn.timeout": "20s", "metastore.acid.housekeeper.interval": "3s"}
"""Settings of the source: it soon aborts the transactions of statements whose metastore was killed, which
keep their locks until then."""
CYCLE_S: Final = 2
"""Time between two comparisons of all external tables."""
STATEMENTS_BETWEEN: Final = (8, 40)
"""How many statements the writers attempt between two kills."""
STATEMENTS_DURING: Final = (0, 2, 40)
"""One of these is how many they attempt while components are down. After many, replay follows with a lag:
what an event concerns was renamed, dropped or created again since."""


def check_random_history(stack: Stack, seed: int, directory: Path) -> None:
    """Follow a history of ``KILLS`` kills with a daemon, and require that both sides end equal and no table
    was quarantined."""
    db = f"history_{uuid.uuid4().hex[:8]}"
    with stack.source.sql() as sql:
        create_source(sql, db)
        sql.run(f"create database {_elsewhere(db)}")
        sql.run(f"create table {_elsewhere(db)}.noted (id int) {TABLES['acid']}")
    base = f"{as_uri(stack.endpoints().target.external)}/{db}"
    external = {"every_s": CYCLE_S, "delete": True}
    replica = KilledReplica.of(stack, db, directory, policy={"external_base": base, "external": external})
    with replica.daemon:
        counts = write_and_kill(replica, seed, KILLS)
        log.info("kills: %s; statements: %s", replica.kills, sorted(counts.items()))
        abort_abandoned(replica)
        replica.settle()
        await_ended(replica)
        found = find_differences(replica)
        assert not found, "\n".join(found)
    done = {kind for kind, outcome in counts if outcome == "done"}
    assert len(done) >= len(KINDS) * 2 // 3, "most kinds of statements succeeded"


def write_and_kill(replica: KilledReplica, seed: int, kills: int) -> Counter[tuple[str, str]]:
    """Write every kind of statement at random, and kill components as ``run_and_kill`` does."""
    stop, tables = threading.Event(), Tables()
    outside = f"{as_uri(replica.stack.endpoints().source.external)}/{replica.db}-outside"
    elsewhere = _elsewhere(replica.db)
    writers = [
        RandomWriter(
            RandomStatements(
                # S311: repeatable choices of a test
                Writing(replica.db, Random(f"{seed}/{number}"), tables, outside, elsewhere)  # noqa: S311
            ),
            replica.stack.source.sql,
            stop,
        )
        for number in range(WRITERS)
    ]
    return run_and_kill(replica, writers, stop, Random(seed), kills)  # noqa: S311 - a test


def run_and_kill(
    replica: KilledReplica, writers: Sequence[RandomWriter], stop: threading.Event, random: Random, kills: int
) -> Counter[tuple[str, str]]:
    """Run the writers, and kill one or two components at a time;
    return the outcomes of each kind of statement.

    While the source's metastore is down, statements fail, so that it never stays away for long.
    """
    with ThreadPoolExecutor(len(writers)) as pool:
        running = [pool.submit(writer.run) for writer in writers]
        try:
            for _ in range(kills):
                _await_statements(writers, random.randint(*STATEMENTS_BETWEEN))
                victims = random.sample(replica.victims, random.choice((1, 1, 2)))
                log.info(
                    "killing %s after %d statements", victims, sum(writer.attempts for writer in writers)
                )
                for victim in victims:
                    replica.kill(victim)
                during = random.choice(STATEMENTS_DURING)
                _await_statements(writers, min(during, 2) if "source metastore" in victims else during)
                for victim in victims:
                    replica.start(victim)
            _await_statements(writers, STATEMENTS_BETWEEN[1])
        finally:
            stop.set()
        for each in running:
            each.result()
    return sum((writer.counts for writer in writers), Counter())


def _elsewhere(db: str) -> str:
    return f"{db}_elsewhere"


def _await_statements(writers: Sequence[RandomWriter], count: int) -> None:
    wanted = sum(writer.attempts for writer in writers) + count
    wait_until(lambda: sum(writer.attempts for writer in writers) >= wanted, 600)


def abort_abandoned(replica: KilledReplica) -> None:
    """Abort the transactions that killed metastores left open, as Hive does after its time-out."""
    with closing(WritingMetastore([replica.stack.source.metastore.uri])) as source:
        for each in source.open_txns_info().open_txns:
            if each.state == TxnState.OPEN:
                source.abort_txn(each.id)


def await_ended(replica: KilledReplica) -> None:
    """Wait until the replica has no open transaction on the target: Hive logs no event of one that it aborts
    for a conflict, and replay notices that later.

    Those of others do not count: a query that reads the target while its metastore is killed leaves one open
    until Hive's time-out.
    """
    with closing(Metastore([replica.stack.target.metastore.uri])) as target:
        wait_until(
            lambda: (
                not any(
                    each.state == TxnState.OPEN and each.user == CLIENT_NAME
                    for each in target.open_txns_info().open_txns
                )
            ),
            300,
        )


def find_differences(replica: KilledReplica) -> list[str]:
    """Compare the rows of all tables as the SQL engines read them, and everything else, with the checksums of
    all files, by ``tideline verify``."""
    stack, db = replica.stack, replica.db
    with closing(Metastore([stack.source.metastore.uri])) as source:
        tables = [source.get_table(db, name) for name in source.table_names(db)]
    names = [f"`{table.tableName}`" for table in tables if table.tableType != "VIRTUAL_VIEW"]
    engines = stack.source.engine.address, stack.target.engine.address
    found = find_unequal_rows((engines[0], db), (engines[1], replica.target_db), names)
    verified = replica.daemon.command("verify", "shop", "--checksums")
    return found if verified.returncode == 0 else [*found, verified.stdout[-5000:] + verified.stderr[-2000:]]
