"""Runs a PostgreSQL server as the database of one metastore, for the duration of a block."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dev.stack.hive.settings import Database
from dev.stack.servers.databases import DATABASE, HOST, PASSWORD, USER, PostgreSQL


@contextmanager
def open_postgres() -> Iterator[Database]:
    """Run the server in a directory that its user can read, because it does not run as root."""
    with (
        tempfile.TemporaryDirectory(prefix="tideline-postgres-", ignore_cleanup_errors=True) as directory,
        PostgreSQL(Path(directory)) as server,
    ):
        yield Database.postgres(f"jdbc:postgresql://{HOST}:{server.port}/{DATABASE}", USER, PASSWORD)
