"""Addresses of key logs: supported databases, and no password in messages."""

from __future__ import annotations

import pytest

from state.errors import ConfigError, KeyLogUnavailable
from streaming.keylog.database import format_address, parse_address
from streaming.keylog.log import KeyLog


@pytest.mark.parametrize(
    ("given", "driver"),
    [
        ("sqlite:////var/lib/keylog.db", "sqlite+pysqlite"),
        ("mysql://u@db/keys", "mysql+pymysql"),
        ("mariadb+pymysql://u@db/keys", "mariadb+pymysql"),
        ("postgresql://u@db:5433/keys", "postgresql+psycopg"),
    ],
)
def test_each_database_uses_the_tested_driver(given: str, driver: str) -> None:
    assert parse_address(given).drivername == driver


@pytest.mark.parametrize(
    "given",
    [
        "",
        "keylog.db",
        "oracle://u:secret@db/keys",
        "mysql+asyncmy://u:secret@db/keys",
        "mysql://u:secret@db",
        "sqlite://",
    ],
)
def test_other_addresses_are_refused_without_showing_a_password(given: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_address(given)
    assert "secret" not in str(raised.value)


def test_a_separate_password_is_used_and_never_shown() -> None:
    url = parse_address("postgresql://u@db/keys?sslmode=require", "p@ss/word")
    assert url.password == "p@ss/word"
    assert url.query == {"sslmode": "require"}
    assert format_address(url) == "postgresql://u:***@db/keys"


@pytest.mark.parametrize("scheme", ["mysql", "mariadb", "postgresql"])
def test_an_unreachable_server_is_a_transient_error_without_the_password(scheme: str) -> None:
    with pytest.raises(KeyLogUnavailable) as raised:
        KeyLog.open(f"{scheme}://u@127.0.0.1:1/keys", password="hunter2-hunter2")
    assert "hunter2" not in str(raised.value)
    assert "127.0.0.1:1" in str(raised.value)
