"""The site of a running daemon with real components, in a real browser."""

from __future__ import annotations

from pathlib import Path

from axe_playwright_python.sync_playwright import Axe

from daemon.replica.status.points import POINTS
from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.http_client import told_port
from tests.builders.daemon.running_daemon import configured
from tests.builders.replication.small_workload import ACID


def test_an_operator_pauses_and_resumes_a_policy_in_the_browser(
    stack: Endpoints, source_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    source_sql.run(f"create database {database}")
    source_sql.run(f"create table {database}.orders (id int) {ACID}")
    daemon.bootstrap()
    with daemon, launched_browser() as browser:
        daemon.status_when(lambda status: status.projections[0].state == "following")
        token = (daemon.state_dir / "http.token").read_text()
        page = browser.new_page(http_credentials={"username": "operator", "password": token})
        site = f"http://127.0.0.1:{told_port(daemon.state_dir)}"
        # Without configured tokens, the daemon requests a login only on this page.
        page.goto(f"{site}/login")
        page.get_by_role("link", name="Policies").click()
        page.get_by_role("link", name="shop").click()
        source_sql.run(f"insert into {database}.orders values (1)")
        daemon.status_when(lambda status: any("orders" in each.write_ids for each in POINTS.of(status)))
        page.reload()
        page.get_by_role("link", name="orders").click()
        page.get_by_role("cell", name="WRITE", exact=True).first.wait_for()
        assert Axe().run(page).violations_count == 0
        page.get_by_role("link", name="shop", exact=True).click()
        for path, text in {
            f"events?table={database}.orders": "write id 1",
            "events/dead-letters": "No dead letters.",
            "logs?filter=running": "running",
            "configuration": "replication-shop.db",
        }.items():
            page.goto(f"{site}/{path}")
            page.get_by_text(text).first.wait_for()
            assert Axe().run(page).violations_count == 0, path
        page.goto(f"{site}/policies/shop")
        page.get_by_role("button", name="Pause").click()
        page.click("#ask-yes")
        page.get_by_text("Done.").wait_for()
        daemon.status_when(lambda status: status.projections[0].state == "paused")
        page.goto(site)
        card = page.locator("article", has_text="Paused policy")
        card.get_by_role("button", name="Resume").click()
        page.click("#ask-yes")
        page.get_by_text("Done.").wait_for()
        status = daemon.status_when(lambda status: status.projections[0].state == "following")
        assert not status.needs_operator
