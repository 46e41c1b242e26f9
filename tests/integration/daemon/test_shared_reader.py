"""Several policies of one source in one daemon: they read the topic together, and stay independent."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml

from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.replication.small_workload import ACID, create_source


def _replace_policies(daemon: RunningDaemon, databases: Iterable[str], unreachable: str) -> None:
    """Replicate each database, and one more to a target that does not answer."""
    values = yaml.safe_load(daemon.config.read_text())
    values["targets"]["gone"] = {"metastore": ["thrift://127.0.0.1:1"]}
    common = {"source": "lake", "bootstrap": "auto"}
    values["policies"] = {
        db: {**common, "target": "dr", "database": db, "target_database": f"{db}_r"} for db in databases
    }
    values["policies"]["gone"] = {
        **common,
        "target": "gone",
        "database": unreachable,
        "target_database": f"{unreachable}_r",
    }
    daemon.config.write_text(yaml.safe_dump(values))


def _states(status: DaemonStatus, databases: Iterable[str]) -> set[tuple[str, int | None]]:
    names = {f"replication:{db}" for db in databases}
    return {(each.state, each.lag_events) for each in status.projections if each.name in names}


@pytest.mark.long
def test_policies_that_read_together_or_alone_end_equal_to_their_source_wherever_they_are_killed(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    """Transactions span the databases of two policies; one policy is behind at each kill, and the target of
    another one never answers."""
    first, second, late, lost = (f"{database}_{name}" for name in ("a", "b", "late", "lost"))
    followed = (first, second, late)
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    _replace_policies(daemon, followed, lost)
    for db in (*followed, lost):
        create_source(source_sql, db)
        source_sql.run(f"create table {db}.t (id int) {ACID}")
    ids = iter(range(1, 100))

    def write(*pairs: tuple[str, str]) -> None:
        for one, other in pairs:
            rows = f"from (select {next(ids)} as id) s"
            source_sql.run(f"{rows} insert into {one}.t select id insert into {other}.t select id")

    try:
        daemon.start()
        daemon.status_when(lambda status: _states(status, followed) == {("following", 0)})
        for kill in range(3):
            daemon.status_when(lambda status: status.state == "running")
            assert daemon.command("pause", late).returncode == 0
            write((first, second), (second, late), (late, lost), (lost, first))
            status = daemon.status_when(lambda s: _states(s, (first, second)) == {("following", 0)})
            assert _states(status, ["gone"]) <= {("backing-off", None), ("starting", None)}
            assert daemon.command("resume", late).returncode == 0
            write((late, first), (first, late))
            if kill:  # otherwise while the policy that is behind still reads alone
                daemon.status_when(lambda s: _states(s, followed) == {("following", 0)})
                write((first, late))
            daemon.kill()
            write((second, late), (late, first))
            daemon.start()
        daemon.status_when(lambda status: _states(status, followed) == {("following", 0)})
        for db in followed:
            query = "select id, count(*) from {}.t group by id order by id"
            assert target_sql.rows(query.format(f"{db}_r")) == source_sql.rows(query.format(db)), db
            verified = daemon.command("verify", db)
            assert verified.returncode == 0, verified.stdout + verified.stderr
    finally:
        daemon.kill()
