"""Before tests start, the components that this machine lacks are named, with the command that gets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dev.stack.optional_programs import list_missing
from dev.stack.servers import databases


if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_a_bare_machine_gets_a_command_for_each_missing_component(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(databases, "_DIRECTORIES", "")
    monkeypatch.setattr(databases, "_find_postgres_directories", list)
    lines = list(list_missing({}))
    for part in ("mariadb-server", "install postgresql'", "openssl", "make s3"):
        assert any(part in line for line in lines), part


def test_an_object_store_that_is_named_is_not_missing() -> None:
    assert not any("object stores" in line for line in list_missing({"TIDELINE_TEST_S3": "s3://bucket"}))
