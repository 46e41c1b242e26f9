"""The guide to Airflow works as it stands on its page: a DAG in a real Airflow waits for a partition.

``TIDELINE_AIRFLOW`` names the program ``airflow`` of a separate environment that has the provider for HTTP.
By default, the test uses the one in the path.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml

from daemon.status.address import running_daemon
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.components.page_runner import DOCS
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.partition_calls import has_waits, partition_calls
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import create_source


pytestmark = pytest.mark.long
AIRFLOW = os.environ.get("TIDELINE_AIRFLOW") or shutil.which("airflow")


def dag_of_guide(table: str) -> str:
    page = (DOCS / "guides/airflow.md").read_text()
    found = re.search(r'```python title="dags/visits.py"\n(.*?)```', page, re.DOTALL)
    assert found is not None
    return found[1].replace("web.visits", table)


@pytest.mark.skipif(AIRFLOW is None, reason="no Airflow: set TIDELINE_AIRFLOW to the program 'airflow'")
def test_a_dag_waits_for_a_partition_without_a_call_of_the_metastore(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    table, home = f"{database}.visits", tmp_path / "airflow"
    create_source(source_sql, database)
    source_sql.run(f"create table {table} (id int) partitioned by (dt string)")
    source_sql.run(f"alter table {table} add partition (dt='2024-01-01')")
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    values = yaml.safe_load(daemon.config.read_text())
    del values["policies"], values["targets"]
    values["catalog"] = {"lake": {"partitions": {"tables": [f"{database}.*"]}}}
    daemon.config.write_text(yaml.safe_dump(values))
    (home / "dags").mkdir(parents=True)
    (home / "dags" / "visits.py").write_text(dag_of_guide(table))

    def airflow(*arguments: str) -> subprocess.CompletedProcess[str]:
        assert AIRFLOW is not None
        address = running_daemon(daemon.state_dir)
        assert address is not None
        host, _, port = address.url.removeprefix("http://").rpartition(":")
        connection = {"conn_type": "http", "host": host, "port": int(port), "extra": address.headers()}
        settings = {
            "AIRFLOW_HOME": str(home),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
            "AIRFLOW_CONN_TIDELINE": json.dumps(connection),
        }
        environment = {name: each for name, each in os.environ.items() if name != "PYTHONPATH"}
        return subprocess.run(
            [AIRFLOW, *arguments],
            env=environment | settings,
            cwd=home,
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )

    with daemon, ThreadPoolExecutor(1) as threads:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        migrated = airflow("db", "migrate")
        assert migrated.returncode == 0, migrated.stderr
        first = daemon.command("wait", "--table", table, "--partition", "dt=2024-01-01", "--timeout", "240")
        assert (first.returncode, first.stderr) == (0, "")

        def is_settled() -> bool:
            """Whether the catalog makes no calls itself; it may list a table that it just found once more."""
            before = partition_calls(daemon.state_dir)
            missing = ("--table", table, "--partition", "dt=2024-01-02", "--timeout", "0")
            assert daemon.command("wait", *missing).returncode == 3
            return partition_calls(daemon.state_dir) == before

        for _ in range(3):
            eventually(is_settled)
        before = partition_calls(daemon.state_dir)
        run = threads.submit(airflow, "dags", "test", "visits", "2024-01-02")
        eventually(lambda: has_waits(daemon.state_dir) or run.done(), deadline_s=300)
        assert not run.done(), run.result().stdout + run.result().stderr
        assert partition_calls(daemon.state_dir) == before
        source_sql.run(f"alter table {table} add partition (dt='2024-01-02')")
        done = run.result()
        assert done.returncode == 0, done.stderr
        assert "load 2024-01-02" in done.stdout + done.stderr
