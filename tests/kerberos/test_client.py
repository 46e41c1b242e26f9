"""Tideline's own client on Hive 4.2's metastore with Kerberos: keytabs, tickets, signed and encrypted calls,
and what can go wrong."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from textwrap import dedent

import pytest

from daemon.endpoint.freshness.event_id_query import EventIdQuery
from daemon.endpoint.settings import EndpointSettings
from daemon.service.configuration import load_config
from daemon.sources.checks.live_checks import live_problems
from dev.fixtures.hive_tables import a_table
from dev.stack.hive.kerberized import ALL_PROTECTIONS, HOST, PRINCIPAL, KerberizedMetastore
from dev.stack.servers.kerberos import REALM, Kdc
from handlers.metastore.addresses import PROTECTIONS, Address, KerberosLogin, Protection, use_logins
from handlers.metastore.client import Metastore
from handlers.structs.objects import Database
from state.errors import LoginFailed, MetastoreUnavailable
from tests.builders.components.availability import start_or_skip
from tests.builders.daemon.killed_stack import wait_until
from tests.builders.kerberos.secure_daemon import USER


@dataclass(frozen=True)
class Secure:
    """A metastore, its KDC, and a keytab of ``USER``."""

    metastore: KerberizedMetastore
    kdc: Kdc
    keytab: Path

    @property
    def login(self) -> KerberosLogin:
        return KerberosLogin(f"hive/_HOST@{REALM}", USER, self.keytab)

    def client(self, login: KerberosLogin | None) -> Metastore:
        use_logins({} if login is None else {(HOST, self.metastore.port): login})
        return Metastore(self.metastore.uri, timeout_s=30)

    def failure(self, login: KerberosLogin) -> LoginFailed:
        with closing(self.client(login)) as client, pytest.raises(LoginFailed) as failed:
            client.current_event_id()
        return failed.value

    def wait_for_expiry(self, login: KerberosLogin) -> None:
        """Wait until tickets that were issued before have expired."""
        assert login.client is not None
        assert login.keytab is not None
        later = self.kdc.log_in(login.client, login.keytab)
        wait_until(lambda: not self.kdc.is_valid(later))


@pytest.fixture(scope="module")
def secure(kdc: Kdc, keytab: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    with start_or_skip("metastore of Hive 4.2 with Kerberos"):
        metastore = KerberizedMetastore(tmp_path_factory.mktemp("kerberized"), kdc, ALL_PROTECTIONS)
        metastore.start()
    yield Secure(metastore, kdc, keytab)
    metastore.stop()


@pytest.mark.parametrize("protection", PROTECTIONS)
def test_changes_and_events_pass_with_every_protection(
    secure: Secure, protection: Protection, database: str, tmp_path: Path
) -> None:
    with closing(secure.client(replace(secure.login, protection=protection))) as client:
        before = client.current_event_id()
        client.create_database(Database(name=database, locationUri=f"file:{tmp_path}/{database}"))
        wide = a_table(database, "t", external=True, parameters={"long": "x" * 3900})
        client.create_table(wide)
        assert (client.get_table(database, "t").parameters or {})["long"] == "x" * 3900
        events = client.next_events(before, 10)
        assert [event.eventType for event in events] == ["CREATE_DATABASE", "CREATE_TABLE"]
        client.drop_database(database, cascade=True)


def test_a_login_without_a_client_principal_uses_the_first_of_the_keytab(secure: Secure) -> None:
    with closing(secure.client(replace(secure.login, client=None))) as client:
        client.current_event_id()


def test_a_login_with_the_ticket_cache_of_the_process(
    secure: Secure, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(secure.kdc.log_in(USER, secure.keytab)))
    with closing(secure.client(KerberosLogin(PRINCIPAL))) as client:
        client.current_event_id()


def test_the_query_of_the_endpoint_logs_in(secure: Secure) -> None:
    address = Address(HOST, secure.metastore.port)
    query = EventIdQuery(EndpointSettings(metastores=(address,), login=secure.login))
    with closing(query), closing(secure.client(secure.login)) as client:
        query.send()
        assert query.receive() == client.current_event_id()


def test_the_query_of_the_endpoint_reports_that_it_cannot_encrypt(secure: Secure) -> None:
    login = replace(secure.login, protection="auth-conf")
    settings = EndpointSettings(metastores=(Address(HOST, secure.metastore.port),), login=login)
    with closing(EventIdQuery(settings)) as query, pytest.raises(LoginFailed, match="cannot sign or encrypt"):
        query.send()


def test_without_a_ticket_the_hint_names_kinit_and_keytab(secure: Secure) -> None:
    assert "run kinit, or give Tideline a keytab" in secure.failure(KerberosLogin(PRINCIPAL)).hint


def test_a_missing_keytab_is_named(secure: Secure) -> None:
    failure = secure.failure(replace(secure.login, keytab=Path("/missing.keytab")))
    assert failure.context["keytab"] == "/missing.keytab"


def test_a_principal_that_the_keytab_lacks_is_reported(secure: Secure) -> None:
    assert "klist -k" in secure.failure(replace(secure.login, client=f"other@{REALM}")).hint


def test_an_unknown_principal_of_the_metastore_is_reported(secure: Secure) -> None:
    failure = secure.failure(replace(secure.login, service=f"impala/_HOST@{REALM}"))
    assert failure.context["principal"] == f"impala/{HOST}@{REALM}"
    assert "metastore's principal" in failure.hint


def test_an_old_keytab_is_reported_and_a_new_one_is_used_without_a_restart(secure: Secure) -> None:
    old = secure.kdc.export("rotated")
    content = secure.kdc.export("rotated").read_bytes()
    login = replace(secure.login, client=f"rotated@{REALM}", keytab=old)
    with closing(secure.client(login)) as client:
        with pytest.raises(LoginFailed, match="integrity check failed") as failed:
            client.current_event_id()
        assert "export the keytab" in failed.value.hint
        old.write_bytes(content)
        client.current_event_id()


def test_an_expired_ticket_is_reported(secure: Secure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KRB5CCNAME", str(secure.kdc.log_in(USER, secure.keytab, "-l", "1s", "-s", "-1h")))
    assert "expired" in secure.failure(KerberosLogin(PRINCIPAL)).hint


def test_while_the_kdc_is_away_a_login_fails_and_later_succeeds(secure: Secure) -> None:
    keytab = secure.kdc.export("patient")
    login = replace(secure.login, client=f"patient@{REALM}", keytab=keytab)
    with closing(secure.client(login)) as client:
        secure.kdc.stop()
        try:
            with pytest.raises(LoginFailed) as failed:
                client.current_event_id()
        finally:
            secure.kdc.start()
        assert "KDC" in failed.value.hint
        client.current_event_id()


def test_tickets_outlast_an_outage_of_the_kdc(secure: Secure) -> None:
    with closing(secure.client(secure.login)) as client:
        client.current_event_id()
    secure.kdc.stop()
    try:
        with closing(secure.client(secure.login)) as client:
            client.current_event_id()
    finally:
        secure.kdc.start()


def test_a_new_connection_renews_tickets_that_have_expired(secure: Secure) -> None:
    keytab = secure.kdc.export("brief")
    secure.kdc.modify("brief", "-maxlife", "2 seconds")
    login = replace(secure.login, client=f"brief@{REALM}", keytab=keytab)
    with closing(secure.client(login)) as client:
        client.current_event_id()
        secure.wait_for_expiry(login)
        client.current_event_id()  # an open connection needs no ticket
        issued = secure.kdc.count_logins("brief")
        client.close()
        client.current_event_id()
        assert secure.kdc.count_logins("brief") > issued


def test_after_tickets_have_expired_the_second_failure_names_the_reason_of_the_kdc(secure: Secure) -> None:
    keytab = secure.kdc.export("short")
    secure.kdc.modify("short", "-maxlife", "2 seconds")
    login = replace(secure.login, client=f"short@{REALM}", keytab=keytab)
    with closing(secure.client(login)) as client:
        client.current_event_id()
    for _ in range(2):  # the library uses a ticket in its last second, which 'klist' does not
        secure.wait_for_expiry(login)
    secure.kdc.modify("short", "-allow_tix")
    assert "accepts the keytab" in secure.failure(login).hint
    assert "locked or disabled" in secure.failure(login).hint


def test_a_client_without_a_login_is_told_which_setting_may_be_missing(secure: Secure) -> None:
    with closing(secure.client(None)) as client, pytest.raises(MetastoreUnavailable, match="set 'auth'"):
        client.current_event_id()


def test_the_live_check_of_the_configuration_names_the_cause(secure: Secure, tmp_path: Path) -> None:
    path = tmp_path / "tideline.yaml"
    path.write_text(
        dedent(f"""\
        targets:
          dr:
            metastore: {secure.metastore.uri}
            auth: {{mechanism: kerberos, principal: impala/_HOST@{REALM}, keytab: {secure.keytab}}}
        """)
    )
    (wrong,) = [each for each in live_problems(load_config(path, {})) if each.key == "targets.dr.metastore"]
    assert "metastore's principal" in wrong.hint
    path.write_text(path.read_text().replace("impala/", "hive/"))
    assert not [each for each in live_problems(load_config(path, {})) if each.key == "targets.dr.metastore"]
