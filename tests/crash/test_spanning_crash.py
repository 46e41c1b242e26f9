"""Two policies in one daemon, whose transactions span both databases, are killed at a pass through each
failpoint that these transactions reach, and end equal to their sources."""

from __future__ import annotations

import logging
import signal
from pathlib import Path
from random import Random

import pytest
import yaml

from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from handlers.failpoints import VARIABLE
from tests.builders.daemon.running_daemon import END_TIMEOUT_S, configured
from tests.builders.replication.replay_kills import STEPS
from tests.builders.replication.small_workload import ACID, create_source
from tests.integration.conftest import database, source, source_sql, stack, target, target_sql, topic


__all__ = ["database", "source", "source_sql", "stack", "target", "target_sql", "topic"]

log = logging.getLogger(__name__)
pytestmark = pytest.mark.crash

REACHED = [step for step in STEPS if not step.endswith(("abort", "rename"))]
PASSES_MAX = 2
"""Each policy passes a failpoint at least once for the transactions of a step."""


def _is_caught_up(status: DaemonStatus) -> bool:
    return all((each.state, each.lag_events) == ("following", 0) for each in status.projections)


def test_policies_with_common_transactions_end_equal_wherever_their_process_is_killed(
    stack: Endpoints,  # noqa: F811 - a fixture asks for fixtures by their names
    source_sql: Session,  # noqa: F811 - likewise
    target_sql: Session,  # noqa: F811 - likewise
    topic: str,  # noqa: F811 - likewise
    database: str,  # noqa: F811 - likewise
    tmp_path: Path,
) -> None:
    names = [f"{database}_{letter}" for letter in "ab"]
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    values = yaml.safe_load(daemon.config.read_text())
    (policy,) = values["policies"].values()
    values["policies"] = {
        name: {**policy, "database": name, "target_database": f"{name}_r", "bootstrap": "auto"}
        for name in names
    }
    daemon.config.write_text(yaml.safe_dump(values))
    for name in names:
        create_source(source_sql, name)
        source_sql.run(f"create table {name}.t (id int) {ACID}")
    with daemon:
        daemon.status_when(_is_caught_up)
    random, number = Random(32), 0  # noqa: S311 - a test
    for step in REACHED:
        for _ in range(PASSES_MAX):
            number += 1
            one, other = random.sample(names, 2)
            rows = f"from (select {number} as id) s"
            source_sql.run(f"{rows} insert into {one}.t select id insert into {other}.t select id")
        daemon.environment = {VARIABLE: f"{step}:{random.randint(1, PASSES_MAX)}"}
        daemon.start()
        assert daemon.process is not None
        log.info("%s", daemon.environment)
        assert daemon.process.wait(END_TIMEOUT_S) == -signal.SIGKILL
        daemon.environment = {}
        with daemon:
            daemon.status_when(_is_caught_up)
            expected = [(str(id_), "1") for id_ in range(1, number + 1)]
            for name in names:
                query = f"select id, count(*) from {name}_r.t group by id order by id"
                assert target_sql.rows(query) == expected, (step, name)
    with daemon:
        for name in names:
            verified = daemon.command("verify", name)
            assert verified.returncode == 0, verified.stdout + verified.stderr
