"""The daemon copies the files of external tables in cycles, within its rate, and continues after it was
killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon.replica.external.status import EXTERNAL
from daemon.status.model import DaemonStatus
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID, create_source


FILES = 24
ROW = "x" * 99 + "\n"


@pytest.mark.long
def test_files_of_external_tables_are_copied_within_a_rate_and_once_although_the_daemon_is_killed(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    root, base = Path(stack.source.external) / database, f"file:{stack.target.external}/base_{database}"
    policy = {
        "external_base": base,
        "bootstrap": "auto",
        "metadata_only": ["meta_*"],
        "external": {"every_s": 1, "delete": True, "bytes_per_s_max": 40_000, "workers": 2},
    }
    daemon = configured(tmp_path, stack, topic=topic, database=database, policy=policy)
    create_source(source_sql, database)
    source_sql.run(
        f"create external table {database}.ext (line string) partitioned by (n int) location "
        f"'file:{root}/ext'"
    )
    added = " ".join(f"partition (n={number})" for number in range(FILES))
    source_sql.run(f"alter table {database}.ext add {added}")
    source_sql.run(f"create table {database}.meta_acid (id int) {ACID}")
    source_sql.run(f"insert into {database}.meta_acid values (1)")

    with daemon:
        daemon.status_when(lambda status: copied(status) is not None)
        for number in range(FILES):
            (root / f"ext/n={number}/a.txt").write_text(ROW * 100)
        before = copied_files(daemon.status_when(lambda status: copied_files(status) >= 2))
        daemon.kill()
    assert before < FILES, "the rate lets no cycle copy all of them before the kill"

    with daemon:
        done = daemon.status_when(lambda status: copied_files(status) > 0 and is_complete(status))
        assert copied_files(done) <= FILES - before, "files that were recorded are not copied again"
        rows = f"select count(*) from (select line from {database}_r.ext) t"
        assert target_sql.rows(rows) == [(str(FILES * 100),)]
        assert target_sql.rows(f"select * from {database}_r.meta_acid") == []
        (root / "ext/n=0/a.txt").unlink()
        daemon.status_when(lambda status: EXTERNAL.of(status)[0].removed == 1)
        listed = json.loads(daemon.command("external", "shop", "--json").stdout)["directories"]
        assert listed == [
            {"table": f"{database}.ext", "source": f"file:{root}/ext", "target": f"{base}{root}/ext"}
        ]
        assert daemon.status_when(lambda _: True).needs_operator == ()
        assert daemon.end() == 0


def copied(status: DaemonStatus) -> int | None:
    """Return when the last complete cycle began."""
    return EXTERNAL.of(status)[0].complete_s


def copied_files(status: DaemonStatus) -> int:
    return EXTERNAL.of(status)[0].copied


def is_complete(status: DaemonStatus) -> bool:
    """Whether the last cycle saw all files and found nothing to copy."""
    external = EXTERNAL.of(status)[0]
    return external.state == "idle" and external.files == FILES and external.failing == 0
