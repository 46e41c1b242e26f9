"""MariaDB and PostgreSQL, each started once per session when first used; every test has its own database."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from dev.stack.servers.databases import DatabaseServer, MariaDB, PostgreSQL
from tests.builders.components.availability import start_or_skip


@pytest.fixture(scope="session")
def mariadb() -> Iterator[DatabaseServer]:
    yield from _served(MariaDB)


@pytest.fixture(scope="session")
def postgresql() -> Iterator[DatabaseServer]:
    yield from _served(PostgreSQL)


def _served(kind: type[MariaDB | PostgreSQL]) -> Iterator[DatabaseServer]:
    # Outside pytest's directory, which only root can read if root runs the tests.
    with tempfile.TemporaryDirectory(prefix="tideline-", ignore_cleanup_errors=True) as directory:
        server = kind(Path(directory))
        with ExitStack() as running:
            with start_or_skip(server.name):
                running.enter_context(server)
            yield server
