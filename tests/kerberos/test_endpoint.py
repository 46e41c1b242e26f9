"""An endpoint without an index in front of a Kerberized metastore, as Hive's Java client and encrypting
clients use it."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from dev.stack.hive.kerberized import KerberizedEngine, KerberizedStack
from dev.stack.servers.kerberos import Kdc
from handlers.metastore.addresses import Address, Protection, use_logins
from handlers.metastore.client import Metastore
from tests.builders.endpoint.endpoint_process import EndpointProcess
from tests.builders.endpoint.partition_requests import positional
from tests.builders.kerberos.secure_daemon import connect, login_of, running_engine


def test_hives_java_client_works_through_the_endpoint_with_a_ticket(
    clusters: KerberizedStack, kdc: Kdc, endpoint: EndpointProcess, database: str
) -> None:
    before = endpoint.metric("sasl_connections_total")
    engine = KerberizedEngine(clusters.source.metastore, kdc, metastore_uri=endpoint.uri)
    with running_engine(engine) as sql:
        sql.run(f"create database {database}")
        sql.run(f"create external table {database}.t (id int) partitioned by (dt string) stored as orc")
        sql.run(f"alter table {database}.t add partition (dt='a') partition (dt='b')")
        sql.run(f"alter table {database}.t drop partition (dt='a')")
        assert sql.rows(f"show partitions {database}.t") == [("dt=b",)]
        sql.run(f"drop database {database} cascade")
    assert endpoint.metric("sasl_connections_total") > before


@pytest.mark.parametrize("protection", ["auth-int", "auth-conf"])
def test_signed_and_encrypted_calls_are_passed_through_unread(
    endpoint: EndpointProcess, through: Address, direct: Address, keytab: Path, protection: Protection
) -> None:
    before = endpoint.metric("sasl_connections_passed_through_total")
    login = replace(login_of(keytab), protection=protection)
    use_logins({(address.host, address.port): login for address in (through, direct)})
    with closing(Metastore(str(through))) as ours, closing(Metastore(str(direct))) as theirs:
        assert ours.database_names() == theirs.database_names()
        assert ours.current_event_id() == theirs.current_event_id()
    assert endpoint.metric("sasl_connections_passed_through_total") > before


def test_dropped_calls_are_translated_for_clients_that_only_authenticate(
    through: Address, direct: Address, keytab: Path
) -> None:
    call = positional("get_table", "default", "missing")
    ours, theirs = connect(through, login_of(keytab)), connect(direct, login_of(keytab))
    with closing(ours.peer), closing(theirs.peer):
        assert b"Invalid method name" in theirs.exchange(call).body
        assert b"default.missing" in ours.exchange(call).body
