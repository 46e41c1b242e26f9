from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from daemon.replica.commands.bootstrap import plan_text
from daemon.replica.loading.bootstrap_progress import CountingProgress, LoggedProgress
from handlers.replication.loading.bootstrap_plan import PlannedTable
from handlers.replication.tables.table_loads import LoadedTable


def test_the_line_shows_tables_files_bytes_and_an_estimate() -> None:
    now = [0.0]
    lines: list[str] = []
    progress = CountingProgress(lines.append, clock=lambda: now[0])
    progress.started(1010, 10)
    progress.copied("orders", 3, 4096)
    assert "left" not in progress.line()
    now[0] = 5.0
    for number in range(10):
        progress.finished(LoadedTable(f"t{number}", 1))
    assert progress.line() == lines[-1]
    assert progress.line().startswith("20 of 1,010 tables, 3 files, ")
    assert progress.line().endswith("about 8 min 15 s left")


def test_a_bootstrap_that_is_done_has_no_estimate() -> None:
    progress = CountingProgress()
    progress.started(1, 0)
    progress.finished(LoadedTable("orders", 1))
    assert progress.line() == "1 of 1 table, 0 files, 0 B"


@pytest.mark.parametrize(("loaded", "event"), [(0, "bootstrap begins"), (1, "bootstrap continues")])
def test_the_log_distinguishes_a_new_bootstrap_from_one_that_continues(loaded: int, event: str) -> None:
    with capture_logs() as logs:
        LoggedProgress("shop").started(2, loaded)
    assert [each["event"] for each in logs] == [event]


def test_the_line_names_open_transactions_and_failed_tables_until_they_are_loaded() -> None:
    progress = LoggedProgress("shop")
    progress.started(2, 0)
    progress.waiting("orders", [7, 8])
    progress.failed("visits", "no access")
    assert "waiting for 2 open transactions" in progress.line()
    assert "1 table failed, last: visits" in progress.line()
    progress.waiting("orders", [])
    progress.finished(LoadedTable("visits", 1))
    assert "waiting" not in progress.line()
    assert "failed" not in progress.line()


def test_the_plan_shows_each_table_and_the_sums() -> None:
    tables = [
        PlannedTable("orders", "transactional", 0, 3, 2048, (7,)),
        PlannedTable("visits", "plain", 5, 10, 1024, ()),
    ]
    text = plan_text(tables)
    assert "orders" in text
    assert text.endswith("2 tables, 13 files, 3.0 KiB; the bootstrap would wait for 1 open transaction")
    assert plan_text([]) == "there is nothing to load"
