"""Eight situations with real components, which an operator sees and ends with nothing but the site.

The first daemon has its state on a small volume and one of its targets behind a proxy. It meets a pause, a
quarantine, a full volume, a target that is down, a failed compaction, a failover with the way back, and an
exchanged token. The second one has a source with a password and a log that is purged.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
import yaml

from dev.stack.endpoints import ClusterEndpoints, Endpoints
from dev.stack.hive.servers import Metastore as MetastoreProcess
from dev.stack.hive.settings import ClusterSettings
from dev.stack.hive.sql_session import Session
from handlers.metastore.addresses import PasswordLogin, use_logins
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.errors import TidelineError
from tests.builders.components.mounts import mounted
from tests.builders.components.proxy import Proxy
from tests.builders.daemon.browsers import launched_browser
from tests.builders.daemon.loops import eventually
from tests.builders.daemon.operated_site import OperatedSite
from tests.builders.daemon.running_daemon import RunningDaemon, configured
from tests.builders.daemon.tideline_process import kafka_settings
from tests.builders.metastore.compaction_worker import CompactionWorker
from tests.builders.replication.small_workload import ACID


TOKEN, EXCHANGED = "o" * 32, "n" * 32
USER: Final = "tideline"
POLICIES: Final = ("shop", "far", "moved")


def with_settings(daemon: RunningDaemon, policies: dict[str, Any], targets: dict[str, Any]) -> None:
    """Add policies, targets, and the operator's token to the configuration."""
    values = yaml.safe_load(daemon.config.read_text())
    (daemon.directory / "token").write_text(TOKEN)
    token = {"file": str(daemon.directory / "token"), "role": "operate"}
    values["http"] |= {"host": "127.0.0.1", "tokens": {"ada": token}}
    values["targets"] |= targets
    values["targets"]["dr"]["compactions_every_s"] = 1
    values["policies"] = policies
    daemon.config.write_text(yaml.safe_dump(values))


@pytest.mark.long
def test_an_operator_ends_seven_situations_with_the_site_alone(
    stack: Endpoints, source_sql: Session, target_sql: Session, topic: str, database: str, tmp_path: Path
) -> None:
    daemon = configured(tmp_path, stack, topic=topic, database=database)
    for name in POLICIES:
        source_sql.run(f"create database {database}_{name}")
        source_sql.run(f"create table {database}_{name}.orders (id int) {ACID}")
        source_sql.run(f"insert into {database}_{name}.orders values (0)")
    with (
        mounted(tmp_path / "state", tmp_path / "backing", size_mb=16) as disk,
        Proxy(stack.target.metastore) as proxy,
        launched_browser() as browser,
    ):
        (tmp_path / "backing").chmod(0o700)
        with_settings(
            daemon,
            {
                name: {
                    "source": "lake",
                    "target": "far" if name == "far" else "dr",
                    "bootstrap": "auto",
                    "database": f"{database}_{name}",
                    "target_database": f"{database}_{name}_r",
                }
                for name in POLICIES
            },
            {"far": {"metastore": [f"thrift://{proxy.address}"]}},
        )
        with daemon:
            daemon.status_when(lambda s: all(each.state == "following" for each in s.projections))
            site = OperatedSite.opened(browser, daemon.state_dir, TOKEN)
            assert site.is_calm()
            quarantine_and_pause(site, stack, source_sql, f"{database}_shop")

            disk.fill()
            numbers = iter(range(1000, 2000))
            eventually(lambda: blocks(site, source_sql, f"{database}_shop.orders values ({next(numbers)})"))
            card = site.card("Files cannot be read or written")
            assert "Free space on the state volume" in card.inner_text()
            assert site.runbook(card) == "Files cannot be read or written"
            disk.free()
            assert site.is_calm()

            proxy.cut()
            source_sql.run(f"insert into {database}_far.orders values (1)")
            card = site.card("A metastore does not answer", proxy.address)
            assert site.runbook(card) == "Another system does not answer"
            proxy.join()
            assert site.is_calm()
            eventually(lambda: target_sql.rows(f"select count(*) from {database}_far_r.orders") == [("2",)])

            fail_compaction(site, stack.target, f"{database}_shop_r")
            fail_over_and_back(site, stack, daemon, f"{database}_moved", topic)

            site.show("/")
            (tmp_path / "token").write_text(EXCHANGED)
            site.page.get_by_text("The daemon does not accept your token any more").wait_for()
            site.log_in(EXCHANGED)
            site.page.get_by_role("link", name="Sign in again").click()
            assert site.is_calm()
            site.show("/actions")
            rows = site.page.get_by_role("group", name="Actions").get_by_role("row").all_inner_texts()[1:]
            actions = ["promote", "compact", "release", "resume", "pause"]
            assert [row.split("\t")[2] for row in rows] == actions
            assert all(row.split("\t")[1] == "ada" and "accepted" in row for row in rows)


def quarantine_and_pause(site: OperatedSite, stack: Endpoints, sql: Session, database: str) -> None:
    """Pause a policy, lose a file meanwhile, resume, and release the table."""
    site.page.get_by_role("link", name="Policies").click()
    site.page.get_by_role("link", name="shop", exact=True).click()
    assert "applies, loads and copies nothing" in site.act(site.page, "Pause")
    sql.run(f"insert into {database}.orders values (1)")
    warehouse = Path(urlsplit(stack.source.warehouse).path)
    (file,) = warehouse.glob(f"{database}.db/orders/delta_0000002_*/bucket_*")
    hidden = file.rename(warehouse / f"{database}.hidden")
    card = site.card("Paused policy", "Policy shop")
    assert site.runbook(card) == "A policy must be paused"
    assert site.act(site.card("Paused policy"), "Resume") == "Done."
    card = site.card("Quarantined table", f"{database}.orders", "file-lost")
    assert site.runbook(card) == "A table is quarantined"
    hidden.rename(file)
    assert "Done. The load of the table begins" in site.act(site.card("Quarantined table"), "Release")
    assert site.is_calm()


def blocks(site: OperatedSite, sql: Session, row: str) -> bool:
    """Write a row; return whether the overview shows that something is blocked."""
    sql.run(f"insert into {row}")
    site.show("/")
    return site.page.get_by_role("heading", name="Blocked from outside").is_visible()


def fail_compaction(site: OperatedSite, target: ClusterEndpoints, database: str) -> None:
    """Let a compaction fail, and queue it again."""
    with CompactionWorker(target.metastore) as worker:
        assert worker.compact(database, "orders").accepted
        while worker.fail_next("no <heap>") != (database, "orders"):
            pass  # what other tests have queued
    card = site.card("Failed compaction", "no <heap>")
    assert site.runbook(card) == "The target has many small files"
    assert "is queued" in site.act(site.card("Failed compaction"), "Compact again")
    assert site.is_calm()
    site.show("/policies/shop")
    site.page.get_by_role("row", name=f"{database}.orders").get_by_text("initiated").wait_for()


def fail_over_and_back(
    site: OperatedSite, stack: Endpoints, daemon: RunningDaemon, database: str, topic: str
) -> None:
    """Promote a policy, let the old source follow as the page says, and promote that one."""
    with Session.connect(stack.source.sql) as sql:
        sql.run(f"create table {database}.late (id int) {ACID}")
    site.show("/policies/moved")
    site.page.get_by_role("link", name="Promote").click()
    site.page.get_by_text("Written within the last minute").wait_for()
    site.page.get_by_text("the newest event of the source is applied").wait_for()
    assert site.act(site.page, "Promote") == "Done."
    site.page.get_by_role("heading", name=f"Promoted: writers may use {database}_r").wait_for()
    with Session.connect(stack.target.sql) as sql:
        sql.run(f"insert into {database}_r.orders values (1)")
    values = yaml.safe_load(site.page.inner_text("#back-yaml"))
    back = RunningDaemon(daemon.directory / "back", database)
    back.directory.mkdir()
    target = stack.target
    values["sources"]["dr"]["read_roots"] = [
        f"file:{place}" for place in (target.warehouse, target.external, target.cmroot)
    ]
    values |= {"http": {"port": 0}, "state": {"dir": str(back.state_dir)}}
    values["kafka"] = kafka_settings(stack.kafka, f"{topic}.back")
    back.config.write_text(yaml.safe_dump(values))
    done = back.command("bootstrap", "moved-back", "--reuse-files", "--yes")
    assert done.returncode == 0, done.stderr + done.stdout
    with back:
        back.status_when(lambda s: s.projections[0].state == "following")
        other = OperatedSite.opened(
            site.page.context.browser or pytest.fail("no browser"),
            back.state_dir,
            (back.state_dir / "http.token").read_text(),
        )
        other.show("/policies/moved-back")
        other.page.get_by_role("link", name="Promote").click()
        assert other.act(other.page, "Promote") == "Done."
        other.page.get_by_role("heading", name=f"Promoted: writers may use {database}").wait_for()
        other.page.close()
    with Session.connect(stack.source.sql) as sql:
        sql.run(f"insert into {database}.orders values (2)")
        assert sql.rows(f"select id from {database}.orders order by id") == [("0",), ("1",), ("2",)]


class LockedMetastore(MetastoreProcess):
    """A metastore whose clients need a password."""

    def __init__(self, directory: Path, port: int | None, password: str, **extra: str) -> None:
        login = {
            "metastore.execute.setugi": "false",
            "metastore.authentication": "CONFIG",
            "metastore.authentication.config.username": USER,
            "metastore.authentication.config.password": password,
        }
        super().__init__(directory, port=port, settings=ClusterSettings(extra=login | extra))
        use_logins({("127.0.0.1", self.port): PasswordLogin(USER, password)})

    def check_ready(self) -> None:
        """Ready when it accepts the login."""
        try:
            with closing(Metastore([self.uri])) as client:
                client.current_event_id()
        except TidelineError as error:
            raise OSError(str(error)) from error


FORGETFUL: Final = {
    "metastore.repl.event.db.listener.timetolive": "3s",
    "metastore.event.db.listener.clean.interval": "1s",
    "metastore.event.db.listener.clean.startup.wait.interval": "0s",
}


@pytest.fixture
def no_logins() -> Iterator[None]:
    yield
    use_logins({})


@pytest.mark.long
@pytest.mark.usefixtures("no_logins")
def test_an_operator_ends_an_exchanged_password_and_a_gap_with_the_site(
    stack: Endpoints, topic: str, database: str, tmp_path: Path
) -> None:
    pond = LockedMetastore(tmp_path / "pond", None, "first")
    pond.start()
    try:
        layout = pond.layout
        places = ClusterEndpoints(
            pond.uri, "127.0.0.1:1", str(layout.warehouse), str(layout.external), str(layout.cmroot)
        )
        with closing(Metastore([pond.uri])) as client:
            client.create_database(Database(name=database))
        daemon = configured(tmp_path, stack, topic=topic, database=database, source=places)
        values = yaml.safe_load(daemon.config.read_text())
        with_settings(daemon, {"shop": values["policies"]["shop"] | {"bootstrap": "auto"}}, {})
        values = yaml.safe_load(daemon.config.read_text())
        password = tmp_path / "password"
        password.write_text("first")
        values["sources"]["lake"]["auth"] = {
            "mechanism": "plain",
            "user": USER,
            "password": {"file": str(password)},
        }
        daemon.config.write_text(yaml.safe_dump(values))
        with launched_browser() as browser:
            with daemon:
                daemon.status_when(lambda s: s.projections[0].state == "following")
                site = OperatedSite.opened(browser, daemon.state_dir, TOKEN)
                assert site.is_calm()
                pond = restarted(pond, "second")
                card = site.card("A login is refused", "Relay of source lake")
                assert site.runbook(card) == "A login is refused"
                password.write_text("second")
                assert site.is_calm()
                site.page.close()
            pond = purged(pond, "second")
            with daemon:
                daemon.status_when(lambda s: {loop.code for loop in s.failed_loops} == {"gap"})
                site = OperatedSite.opened(browser, daemon.state_dir, TOKEN)
                card = site.card("Lost events", "Relay of source lake")
                assert site.runbook(card) == "The relay lost events"
                assert "are skipped" in site.act(site.card("Lost events", "Relay"), "Skip the lost events")
                card = site.card("Lost events", "tideline gap policy shop")
                assert site.runbook(card) == "A projection has failed"
                card = site.card("Lost events", "tideline gap policy shop")
                assert "will be loaded" in site.act(card, "Skip the lost events")
                assert site.is_calm(), "although no event follows"
    finally:
        pond.stop()


def restarted(pond: LockedMetastore, password: str, **extra: str) -> LockedMetastore:
    pond.stop()
    again = LockedMetastore(pond.directory, pond.port, password, **extra)
    again.start()
    return again


def purged(pond: LockedMetastore, password: str) -> LockedMetastore:
    """Write events that nobody relays, and purge them."""
    with closing(Metastore([pond.uri])) as client:
        for name in ("lost", "lost_too"):
            client.create_database(Database(name=name))
        lost = client.current_event_id()
    pond = restarted(pond, password, **FORGETFUL)
    names = (f"late_{number}" for number in count())
    with closing(Metastore([pond.uri])) as client:

        def is_purged() -> bool:
            first = client.next_events(0, 1)
            if not first:  # an event with which the log can begin
                client.create_database(Database(name=next(names)))
            return bool(first) and first[0].eventId > lost

        eventually(is_purged)
    return restarted(pond, password)
