"""The key log on MariaDB and PostgreSQL: the contract, and a server that becomes unreachable."""

from __future__ import annotations

import pytest
from sqlalchemy import create_engine, make_url, text

from dev.stack.servers.databases import PASSWORD, DatabaseServer
from state.errors import InvalidRequest, KeyLogUnavailable
from streaming.keylog.database import parse_address
from streaming.keylog.log import KeyLog
from streaming.keylog.log_reader import read_requested_keys
from tests.builders.components.databases import new_database
from tests.builders.keylog.contract import KeyLogContract
from tests.builders.keylog.key_logs import RAW, key_request, open_key_log


class TestOnMariaDB(KeyLogContract):
    """Every test of the contract."""

    @pytest.fixture
    def address(self, mariadb: DatabaseServer) -> str:
        return new_database(mariadb)


class TestOnPostgreSQL(KeyLogContract):
    """Every test of the contract."""

    @pytest.fixture
    def address(self, postgresql: DatabaseServer) -> str:
        return new_database(postgresql)


@pytest.fixture(params=["mariadb", "postgresql"])
def server(request: pytest.FixtureRequest) -> DatabaseServer:
    found: DatabaseServer = request.getfixturevalue(request.param)
    return found


def test_after_an_outage_of_the_server_nothing_counts_twice(server: DatabaseServer) -> None:
    with open_key_log(new_database(server)) as log:
        log.record([key_request()], source="s", position="p1")
        server.kill()
        with pytest.raises(KeyLogUnavailable) as raised:
            log.record([key_request()], source="s", position="p2")
        server.start()
        assert PASSWORD not in str(raised.value)
        log.record([key_request()], source="s", position="p2")
        log.record([key_request()], source="s", position="p2")
        assert [each.count for each in read_requested_keys(log, RAW, 30)] == [2]


def test_a_wrong_password_is_reported_without_showing_it(server: DatabaseServer) -> None:
    with pytest.raises(KeyLogUnavailable) as raised:
        KeyLog.open(server.url, password="not-this-one")
    assert "not-this-one" not in str(raised.value)
    assert "password" in str(raised.value)


def test_a_user_without_rights_gets_the_reason(server: DatabaseServer) -> None:
    address = new_database(server)
    engine = create_engine(parse_address(address))
    host = "" if server.name == "postgresql" else "@'127.0.0.1'"
    statements = [f"CREATE USER visitor{host} IDENTIFIED BY 'visitor'"]
    if server.name == "postgresql":
        statements = ["DROP USER IF EXISTS visitor", "CREATE USER visitor PASSWORD 'visitor'"]
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(
                text(statement.replace("CREATE USER visitor@", "CREATE OR REPLACE USER visitor@"))
            )
    engine.dispose()
    visitor = make_url(address).set(username="visitor", password="visitor")
    with pytest.raises((InvalidRequest, KeyLogUnavailable)) as raised:
        open_key_log(visitor.render_as_string(hide_password=False))
    assert "denied" in str(raised.value)
