"""A catalog killed with SIGKILL at any step ends with the timelines and the index of a rebuild, on a real
metastore."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.catalog.index.partition_follower import PartitionRules
from handlers.failpoints import VARIABLE
from handlers.metastore.client import Metastore
from state.timelines.table_properties import PRESENT
from tests.builders.catalog.followed_catalog import rebuilt, reindexed, rules_for


pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[3]
STATE = "catalog.db"
HISTORY = """
    ALTER TABLE sales ADD PARTITION (dt='2015-01-03', it='x') PARTITION (dt='2015-01-03', it='2015-01-01-01')
    ALTER TABLE sales DROP PARTITION (dt='2015-01-01')
    ALTER TABLE sales RENAME TO orders
    ALTER TABLE orders PARTITION (dt='2015-01-03', it='x') RENAME TO PARTITION (dt='2015-01-09', it='y')
    CREATE TABLE sales (id int) PARTITIONED BY (dt string)
    ALTER TABLE sales ADD PARTITION (dt='2015-01-07')
    DROP TABLE fact
    ALTER TABLE orders ADD PARTITION (dt='2015-01-08', it='2015-01-01-02')
"""


def run(
    source: ClusterEndpoints, database: str, directory: Path, *options: str, failpoint: str = ""
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), VARIABLE: failpoint}
    program = str(ROOT / "tests/crash/programs/catalog_follow.py")
    command = [sys.executable, program, source.metastore, database, str(directory / STATE), *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)


def held(done: subprocess.CompletedProcess[str]) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return {(a, b, c): [(first, last) for first, last in runs] for a, b, c, runs in told["content"]}


@pytest.fixture
def hive(source_sql: Session, database: str) -> Session:
    source_sql.run(f"CREATE DATABASE {database}")
    source_sql.run(f"USE {database}")
    source_sql.run("CREATE TABLE sales (id int) PARTITIONED BY (dt string, it string)")
    source_sql.run("CREATE TABLE fact (id int) PARTITIONED BY (dt string)")
    source_sql.run(
        "ALTER TABLE sales ADD PARTITION (dt='2015-01-01', it='x') PARTITION (dt='2015-01-02', it='y')"
    )
    source_sql.run("ALTER TABLE fact ADD PARTITION (dt='2015-02-01')")
    return source_sql


@pytest.mark.long
def test_a_crash_at_any_step_of_following_and_loading_ends_like_a_rebuild(
    hive: Session, source: ClusterEndpoints, database: str, tmp_path: Path
) -> None:
    before = tmp_path / "before"
    before.mkdir()
    assert held(run(source, database, before))
    for statement in HISTORY.strip().splitlines():
        hive.run(statement)
    expected = rebuilt(source.metastore, rules_for(database, columns=("dt", "it")))
    assert len(expected) == 3
    index = reindexed(source.metastore, PartitionRules((f"{database}.*",)))
    assert sorted(map(len, index.values())) == [1, 4]
    points = {"catalog.before-commit": (1, 2, 3), "catalog.after-commit": (1, 2, 3)}
    for name, passes in points.items():
        for number in passes:
            directory = tmp_path / f"{name}-{number}"
            shutil.copytree(before, directory)
            assert run(source, database, directory, failpoint=f"{name}:{number}").returncode == -9, name
            done = run(source, database, directory)
            assert held(done) == expected, (name, number)
            assert json.loads(done.stdout)["partitions"] == index, (name, number)
    first = ("catalog.surveyed", "catalog.listed", "catalog.loaded", "catalog.loaded:2")
    written = tuple(f"catalog.timelines-written:{number}" for number in (1, 2, 4, 6))
    for name in (*first, *written, "catalog.staged", "catalog.staged:2", "catalog.staged:3"):
        directory = tmp_path / name
        directory.mkdir()
        assert run(source, database, directory, failpoint=name).returncode == -9, name
        done = run(source, database, directory)
        assert held(done) == expected, name
        assert json.loads(done.stdout)["partitions"] == index, name


@pytest.mark.long
def test_a_crash_around_publishing_ends_with_correct_properties(
    hive: Session, source: ClusterEndpoints, database: str, tmp_path: Path
) -> None:
    for name in ("catalog.before-publish", "catalog.after-publish"):
        directory = tmp_path / name
        directory.mkdir()
        hive.run(f"ALTER TABLE sales ADD PARTITION (dt='2015-03-0{len(name) % 9 + 1}', it='x')")
        assert run(source, database, directory, "publish", failpoint=name).returncode == -9, name
        done = run(source, database, directory, "publish")
        assert held(done) == rebuilt(source.metastore, rules_for(database, columns=("dt", "it")))
        assert json.loads(done.stdout)["dirty"] == []
        with Metastore([source.metastore]) as client:
            parameters = client.get_table(database, "sales").parameters or {}
        assert parameters[PRESENT] == "true"
        latest = held(done)[f"{database}.sales", "dt", "DAILY"][-1][1]
        assert parameters["cube.storagetable.partition.timeline.cache.DAILY.dt.latest"] == latest
