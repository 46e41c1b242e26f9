"""``tideline verify --repair`` beside a running daemon, and the daemon's own sampler, on real components."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from daemon.replica.verification.status import VERIFICATION, SamplerStatus
from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.metastore.client import Metastore
from tests.builders.daemon.running_daemon import status_when
from tests.builders.daemon.tideline_process import (
    COMMAND,
    daemon,
    kafka_settings,
    running,
    tideline,
    write_config,
)
from tests.builders.replication.small_workload import ACID, PLAIN, create_source


DAMAGED = ("deleted", "changed", "extra", "write_id", "parts", "plain")


@pytest.fixture
def config(stack: Endpoints, topic: str, database: str, tmp_path: Path) -> Path:
    """A policy whose tables the daemon verifies as fast as it can."""
    source, target = stack.source, stack.target
    roots = [f"file:{root}" for root in (source.warehouse, source.external, source.cmroot)]
    values = {
        "sources": {"lake": {"metastore": [source.metastore], "topic": topic, "read_roots": roots}},
        "targets": {"dr": {"metastore": [target.metastore]}},
        "policies": {
            "shop": {
                "source": "lake",
                "target": "dr",
                "database": database,
                "target_database": f"{database}_r",
                "verification": {"tables_per_hour_share": 3600, "interval_s": 0.05},
            }
        },
        "kafka": kafka_settings(stack.kafka, topic),
    }
    return write_config(tmp_path, values)


@pytest.fixture
def target_metastore(stack: Endpoints) -> Iterator[Metastore]:
    with closing(Metastore([stack.target.metastore])) as metastore:
        yield metastore


def write_tables(sql: Session, db: str) -> None:
    create_source(sql, db)
    for table in ("deleted", "changed", "extra", "write_id", "stream"):
        sql.run(f"create table {db}.{table} (id int) {ACID}")
        sql.run(f"insert into {db}.{table} values (1), (2)")
    sql.run(f"create table {db}.parts (id int) partitioned by (dt string) {ACID}")
    sql.run(f"insert into {db}.parts values (1, 'a'), (2, 'b')")
    sql.run(f"create table {db}.plain (id int) {PLAIN}")
    sql.run(f"insert into {db}.plain values (1)")


def file_of(metastore: Metastore, db: str, table: str) -> Path:
    """Return the only data file of a table."""
    root = Path(urlsplit(metastore.get_table(db, table).sd.location or "").path)
    (file,) = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith(("_", ".")))
    return file


def damage(metastore: Metastore, sql: Session, db: str) -> None:
    """Damage each table of ``DAMAGED`` on the target in another way."""
    file_of(metastore, db, "deleted").unlink()
    with file_of(metastore, db, "changed").open("ab") as file:
        file.write(b"\0")
    sql.run(f"insert into {db}.extra values (7)")
    metastore.open_replayed(f"{db}.*", 10**12)
    metastore.allocate_replayed(f"{db}.*", db, "write_id", 10**12, 2)
    metastore.commit_replayed(f"{db}.*", 10**12, ())
    metastore.drop_partition(db, "parts", ["b"])
    table = metastore.get_table(db, "plain")
    table.parameters = {**(table.parameters or {}), "retention.days": "7"}
    metastore.alter_table(db, "plain", table)


@pytest.mark.long
def test_repair_fixes_every_kind_of_difference_while_another_table_streams(
    config: Path,
    database: str,
    source_sql: Session,
    target_sql: Session,
    target_metastore: Metastore,
    tmp_path: Path,
) -> None:
    write_tables(source_sql, database)
    bootstrapped = tideline(config, "bootstrap", "shop")
    assert bootstrapped.returncode == 0, bootstrapped.stderr
    with daemon(config):
        status_when(tmp_path / "state", lambda s: s.projections[0].state == "following")
        damage(target_metastore, target_sql, f"{database}_r")
        found = status_when(tmp_path / "state", lambda s: sampled(s).differing == len(DAMAGED))
        named = {table.table for table in sampled(found).tables}
        assert named == {f"{database}.{table}" for table in DAMAGED}
        repair = [*COMMAND, "verify", "shop", "--repair", "--json", "-c", str(config)]
        with running(repair) as process:
            rows = stream_until_ended(process, source_sql, f"{database}.stream")
            assert process.stdout is not None
            output = process.stdout.read()
        report = json.loads(output)
        assert sorted(report["loads_requested"]) == sorted(DAMAGED)
        outcomes = {each["table"]: each["outcome"] for each in report["tables"]}
        assert {outcomes[table] for table in DAMAGED} == {"equal"}, output
        assert outcomes["stream"] in {"equal", "busy"}, output
        after = tideline(config, "verify", "shop", "--json")
        assert after.returncode == 0, after.stdout
        status_when(tmp_path / "state", lambda s: sampled(s).differing == 0)
    counts = target_sql.rows(f"select count(*) from {database}_r.stream")
    assert counts == [(str(2 + rows),)]
    assert target_sql.rows(f"select id from {database}_r.extra order by id") == [("1",), ("2",)]


def sampled(status: DaemonStatus) -> SamplerStatus:
    (sampler,) = VERIFICATION.of(status)
    return sampler


def stream_until_ended(process: subprocess.Popen[str], sql: Session, table: str) -> int:
    """Insert rows one after the other while the command runs; return their number."""
    rows = 0
    while process.poll() is None:
        sql.run(f"insert into {table} values ({rows})")
        rows += 1
    return rows
