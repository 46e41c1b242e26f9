"""The key log on SQLite: the contract, and behaviour specific to files."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from state.errors import ConfigError, KeyLogUnavailable, StateCorrupt
from streaming.keylog.log_reader import read_requested_keys
from tests.builders.keylog.contract import KeyLogContract
from tests.builders.keylog.key_logs import RAW, key_request, open_key_log


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/deep/below/keylog.db"


class TestOnSqlite(KeyLogContract):
    """Every test of the contract."""


def test_a_file_that_is_not_a_database_is_reported_as_such(tmp_path: Path) -> None:
    (tmp_path / "keylog.db").write_bytes(b"not a database, " * 1_000)
    with pytest.raises(StateCorrupt, match="not a database"):
        open_key_log(f"sqlite:///{tmp_path}/keylog.db")


def test_a_directory_that_cannot_be_created_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="directory cannot be created"):
        open_key_log(f"sqlite:///{tmp_path}/file/keylog.db")


def test_an_address_that_is_a_directory_is_a_transient_error_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(KeyLogUnavailable, match=str(tmp_path)):
        open_key_log(f"sqlite:///{tmp_path}")


def test_a_missing_table_is_reported_without_the_values_of_the_statement(address: str) -> None:
    with open_key_log(address) as log:
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            connection.execute("DROP TABLE tideline_request")
        connection.close()
        with pytest.raises(KeyLogUnavailable) as raised:
            log.record([key_request(user="hidden-person")], source="s", position="p")
        assert "hidden-person" not in str(raised.value)
        assert log.position("s") is None


def test_readers_do_not_wait_for_a_writer(address: str) -> None:
    with open_key_log(address) as log:
        log.record([key_request()], source="s", position="p1")

        def work(connection: object) -> int:
            with open_key_log(address) as other:
                return len(read_requested_keys(other, RAW, 30))

        assert log.database.write(work) == 1


def test_opening_waits_for_another_process_that_prepares_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "keylog.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits = []

    def other_continues(pause_s: float) -> None:
        waits.append(pause_s)
        if len(waits) == 2:
            other.execute("ROLLBACK")

    # Only this module's clock: threads of other tests sleep too.
    clock = SimpleNamespace(sleep=other_continues, monotonic=time.monotonic)
    monkeypatch.setattr("streaming.keylog.database.time", clock)
    with open_key_log(f"sqlite:///{tmp_path}/keylog.db") as log:
        assert log.position("s") is None
    assert len(waits) == 2
    other.close()
