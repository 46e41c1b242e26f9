"""Copies keep the limit of their policy, and an operator removes it while they run."""

from __future__ import annotations

import json
import re
from pathlib import Path

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.http_client import asked, told_port
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import create_source


INSERT_ONLY = "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"


def test_a_load_waits_for_its_limit_until_an_operator_removes_it(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    create_source(source_sql, database)
    source_sql.run(f"create table {database}.t (text string) stored as textfile {INSERT_ONLY}")
    source_sql.run(f"insert into {database}.t select repeat('x', 4000000)")
    policy = {"bootstrap": "auto", "bytes_per_s_max": 1024}  # more than an hour
    daemon = configured(tmp_path, stack, topic=topic, database=database, policy=policy)
    with daemon:
        daemon.status_when(lambda status: status.to_json()["copies"][0]["waiting"])
        limits = json.loads(daemon.command("limit", "-o", "json").stdout)
        assert limits["policies"] == [{"name": "shop", "bytes_per_s_max": 1024}]
        removed = daemon.command("limit", "none", "--policy", "shop")
        assert removed.stdout == "no limit, was 1.0 KiB/s\n"
        daemon.status_when(
            lambda status: status.projections[0].state == "following" and not status.projections[0].loading
        )
        rows = target_sql.rows(f"select length(text) from {database}_r.t")
        assert [int(length) for (length,) in rows] == [4_000_000]
        text = asked(told_port(daemon.state_dir), "/metrics").text
        waited = re.search(
            r'^tideline_copies_limited_seconds_total\{policy="shop"\} (\S+)$', text, re.MULTILINE
        )
        assert waited is not None
        assert float(waited[1]) > 0
        assert daemon.end() == 0
