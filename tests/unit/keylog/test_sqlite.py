"""The key log on SQLite: the contract, and what only a file has."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import pytest

from state.errors import ConfigError, KeyLogUnavailable, StateCorrupt
from streaming.keylog.log_reader import read_requested_keys
from tests.builders.keylog.contract import KeyLogContract
from tests.builders.keylog.key_logs import RAW, ask, opened


if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def address(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/deep/below/keylog.db"


class TestOnSqlite(KeyLogContract):
    """Every test of the contract."""


def test_a_file_that_is_no_database_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "keylog.db").write_bytes(b"not a database, " * 1_000)
    with pytest.raises(StateCorrupt, match="no database"):
        opened(f"sqlite:///{tmp_path}/keylog.db")


def test_a_directory_that_cannot_be_made_is_a_setting_to_change(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="directory cannot be made"):
        opened(f"sqlite:///{tmp_path}/file/keylog.db")


def test_a_place_that_is_a_directory_is_transient_and_named(tmp_path: Path) -> None:
    with pytest.raises(KeyLogUnavailable, match=str(tmp_path)):
        opened(f"sqlite:///{tmp_path}")


def test_a_lost_table_is_told_without_the_values_of_the_statement(address: str) -> None:
    with opened(address) as log:
        with sqlite3.connect(address.removeprefix("sqlite:///")) as connection:
            connection.execute("DROP TABLE tideline_asked")
        connection.close()
        with pytest.raises(KeyLogUnavailable) as raised:
            log.record([ask(user="hidden-person")], source="s", position="p")
        assert "hidden-person" not in str(raised.value)
        assert log.position("s") is None


def test_readers_do_not_wait_for_a_writer(address: str) -> None:
    with opened(address) as log:
        log.record([ask()], source="s", position="p1")

        def work(connection: object) -> int:
            with opened(address) as other:
                return len(read_requested_keys(other, RAW, 30))

        assert log.database.write(work) == 1


def test_a_new_file_that_another_process_prepares_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = sqlite3.connect(tmp_path / "keylog.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    waits = []

    def other_goes_on(pause_s: float) -> None:
        waits.append(pause_s)
        if len(waits) == 2:
            other.execute("ROLLBACK")

    monkeypatch.setattr("streaming.keylog.database.time.sleep", other_goes_on)
    with opened(f"sqlite:///{tmp_path}/keylog.db") as log:
        assert log.position("s") is None
    assert len(waits) == 2
    other.close()
