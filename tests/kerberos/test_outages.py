"""What can go wrong with Kerberos while a daemon follows:
it reports a failed login, and goes on by itself once the cause is gone.

The daemon's tickets are valid for two seconds. An endpoint without an index stands between the daemon and
each metastore; it is killed and started again in each outage, so that the daemon must log in again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import pytest

from daemon.status.model import DaemonStatus
from dev.stack.hive.kerberized import HOST, KerberizedStack
from dev.stack.servers.kerberos import REALM, Kdc
from handlers.metastore.addresses import use_logins
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.partition_requests import positional
from tests.builders.kerberos.secure_daemon import SecureDaemon, connect, login_of
from tests.builders.replication.equal_rows import find_unequal_rows
from tests.builders.replication.small_workload import ACID, create_source


DB: Final = "outages"
BRIEF: Final = "brief"
CLIENT: Final = f"{BRIEF}@{REALM}"


@dataclass(frozen=True)
class Between:
    """The daemon, and the endpoints between it and the metastores."""

    secure: SecureDaemon
    clusters: KerberizedStack
    kdc: Kdc
    keytab: Path
    paths: tuple[EndpointProcess, ...]

    def break_connections(self) -> None:
        for path in self.paths:
            path.kill_and_start()

    def write(self, number: int) -> None:
        with self.clusters.source.sql() as sql:
            sql.run(f"insert into {DB}.orders values ({number})")
            sql.run(f"alter table {DB}.days add partition (dt='{number}')")

    def expire_ticket(self) -> None:
        """Wait until the daemon's tickets have expired: one that was issued now has."""
        ticket = self.kdc.log_in(CLIENT, self.keytab)
        wait_until(lambda: not self.kdc.is_valid(ticket))

    def require_equal_replica(self) -> None:
        with self.clusters.source.sql(), self.clusters.target.sql():
            pass  # the engines start with their first session
        ours, theirs = self.clusters.source.engine.address, self.clusters.target.engine.address
        assert find_unequal_rows((ours, DB), (theirs, f"{DB}_r"), ("orders",)) == []
        verified = self.secure.daemon.command("verify", "shop", "--checksums")
        assert verified.returncode == 0, verified.stdout[-3000:]

    @property
    def last(self) -> int:
        return self.clusters.source.metastore.last_event_id()


@pytest.fixture(scope="module")
def between(
    clusters: KerberizedStack, kdc: Kdc, keytab: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Between]:
    own = kdc.keytab_of(BRIEF)
    kdc.modify(BRIEF, "-maxlife", "2 seconds")
    use_logins({(HOST, clusters.source.metastore.port): login_of(keytab)})
    with clusters.source.sql() as sql:
        create_source(sql, DB)
        sql.run(f"create table {DB}.orders (id int) {ACID}")
        sql.run(f"create external table {DB}.days (id int) partitioned by (dt string) stored as orc")
    with ExitStack() as stack:
        paths = []
        for cluster in (clusters.source, clusters.target):
            path = EndpointProcess(tmp_path_factory.mktemp("path"), cluster.metastore.uri)
            stack.callback(path.stop)
            path.start()
            paths.append(path)
        known = clusters.endpoints()
        source = replace(known.source, metastore=paths[0].uri)
        target = replace(known.target, metastore=paths[1].uri)
        endpoints = replace(known, source=source, target=target)
        secure = SecureDaemon.of(tmp_path_factory.mktemp("daemon"), endpoints, DB, own, CLIENT)
        stack.enter_context(secure.daemon)
        made = Between(secure, clusters, kdc, own, tuple(paths))
        secure.endpoint_when(lambda found: found.state == "following")
        secure.settle(made.last)
        yield made


@contextmanager
def no_kdc(between: Between) -> Iterator[None]:
    between.kdc.stop()
    try:
        yield
    finally:
        between.kdc.start()


@contextmanager
def no_keytab(between: Between) -> Iterator[None]:
    away = between.keytab.rename(between.keytab.with_suffix(".away"))
    try:
        yield
    finally:
        away.rename(between.keytab)


@contextmanager
def old_keytab(between: Between) -> Iterator[None]:
    """The principal has a new key, and the keytab has not been replaced yet."""
    new = between.kdc.export(BRIEF)
    try:
        yield
    finally:
        between.keytab.write_bytes(new.read_bytes())


@contextmanager
def wrong_clock(between: Between) -> Iterator[None]:
    """The clocks of this host and of the KDC differ by more than it accepts."""
    between.kdc.clock_skew_s = -1
    between.kdc.restart()
    try:
        yield
    finally:
        between.kdc.clock_skew_s = None
        between.kdc.restart()


@contextmanager
def locked_principal(between: Between) -> Iterator[None]:
    between.kdc.modify(BRIEF, "-allow_tix")
    try:
        yield
    finally:
        between.kdc.modify(BRIEF, "+allow_tix")


OUTAGES: Final[dict[str, tuple[Callable[[Between], Any], str]]] = {
    "the KDC does not run": (no_kdc, "No KDC of the realm answers"),
    "the keytab is missing": (no_keytab, "Check its path"),
    "the keytab is old": (old_keytab, "export the keytab"),
    "the clocks differ": (wrong_clock, "synchronize them"),
    "the principal is locked": (locked_principal, "locked or disabled"),
}


def problems(status: DaemonStatus) -> list[tuple[str | None, str]]:
    """Return error code and problem of relay and replica; the catalog reads only the topic."""
    source, replica = status.sources[0], status.projections[0]
    return [(source.code, source.problem or ""), (replica.code, replica.problem or "")]


def failed_logins(status: DaemonStatus, hint: str) -> bool:
    return all(code == "login-failed" and hint in text for code, text in problems(status))


@pytest.mark.parametrize(("number", "outage"), list(enumerate(OUTAGES, 1)), ids=list(OUTAGES))
def test_the_daemon_reports_failed_logins_and_goes_on_by_itself(
    between: Between, keytab: Path, number: int, outage: str
) -> None:
    secure, (begin, hint) = between.secure, OUTAGES[outage]
    use_logins({(HOST, between.clusters.source.metastore.port): login_of(keytab)})
    assert secure.daemon.process is not None
    pid, restarts = secure.daemon.process.pid, secure.endpoint_when(lambda _: True).restarts
    client = login_of(keytab)
    names = positional("get_partition_names", DB, "days", -1)
    with closing(connect(secure.address, client).peer):
        pass  # the client has a ticket of its own for the time of the outage
    between.expire_ticket()
    with begin(between):
        between.break_connections()
        between.write(number)
        secure.daemon.status_when(lambda status: failed_logins(status, hint))
        with closing((through := connect(secure.address, client)).peer):
            assert f"dt={number}".encode() in through.exchange(names).body, "forwarded, and complete"
    secure.settle(between.last)
    answered = secure.endpoint_when(lambda _: True).answered
    with closing((through := connect(secure.address, client)).peer):
        while secure.endpoint_when(lambda _: True).answered == answered:
            assert f"dt={number}".encode() in through.exchange(names).body
    after = secure.endpoint_when(lambda _: True)
    assert (secure.daemon.process.poll(), secure.daemon.process.pid, after.restarts) == (None, pid, restarts)
    assert after.differing == ()
    between.require_equal_replica()
