"""Migrates a database to the newest schema exactly once, even if several processes open it at the same time.

Alembic's version table holds the current version. A process that finds an older version, or none, proceeds as
follows:

1. it takes the database's own lock (SQLite: the write transaction; MySQL and MariaDB: ``GET_LOCK``;
   PostgreSQL: an advisory lock);
2. it reads the version again, because another process may have migrated the database in the meantime;
3. it runs the missing scripts and commits them;
4. it releases the lock.

A separate connection holds the lock until the scripts are committed. With an earlier release, the next
process would still find the older version. SQLite and PostgreSQL apply all of the scripts or none; MySQL
commits every statement, so scripts are repeatable.

The migrator refuses a newer schema, because an older program would not write everything that a newer one
needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import Connection, text

from state.errors import KeyLogUnavailable, StateCorrupt
from streaming.keylog.database import Database
from streaming.keylog.schema import PREFIX


VERSION_TABLE: Final = f"{PREFIX}keylog_version"
LOCK_WAIT_S: Final = 60
_LOCK_NUMBER: Final = 0x7469_6465_6C6F_67  # "tidelog"


def newest_version() -> str:
    """Return the version after the last script."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "at least one script must exist"
    return head


def read_version(connection: Connection) -> str | None:
    """Return the database's version; None if it has none."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def migrate(database: Database, version: str | None = None) -> None:
    """Migrate ``database`` to ``version``, by default the newest.

    Raises StateCorrupt if its schema is newer than this program, or its version cannot be determined.
    """
    target = version or newest_version()
    try:
        with database.read() as connection:
            stored = read_version(connection)
        if stored != target:
            _refuse_newer(stored, database.address)
            with _lock(database):  # step 1; step 4 is its end
                database.write(lambda connection: _upgrade(connection, target, database.address))
    except CommandError as error:
        raise StateCorrupt(
            "the key log's version table is inconsistent",
            address=database.address,
            table=VERSION_TABLE,
            reason=str(error)[:300],
            hint="The table must have exactly one row. Restore it, or use an empty database.",
        ) from error


def _upgrade(connection: Connection, target: str, address: str) -> None:
    stored = read_version(connection)  # step 2
    _refuse_newer(stored, address)
    if stored is None or stored < target:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, target)  # step 3


def _refuse_newer(stored: str | None, address: str) -> None:
    revisions = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if stored is not None and stored not in revisions:
        raise StateCorrupt(
            "the key log was written by a newer version of Tideline",
            address=address,
            stored=stored,
            newest_known=newest_version(),
            hint="Run that version of Tideline, or use another database.",
        )


@contextmanager
def _lock(database: Database) -> Iterator[None]:
    """Hold the database's lock during the block. On SQLite, the write transaction is the lock."""
    if database.dialect == "sqlite":
        yield
        return
    with database.read() as holder:
        if database.dialect == "postgresql":
            holder.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _LOCK_NUMBER})
            yield
        else:
            with _named_lock(holder, database.address):
                yield


@contextmanager
def _named_lock(holder: Connection, address: str) -> Iterator[None]:
    """Hold MySQL's or MariaDB's lock during the block. It belongs to the connection, not the transaction."""
    name = {"name": f"{holder.engine.url.database}.{VERSION_TABLE}"[-64:], "wait": LOCK_WAIT_S}
    if holder.scalar(text("SELECT GET_LOCK(:name, :wait)"), name) != 1:
        raise KeyLogUnavailable(
            "another process has been migrating the key log for too long", address=address
        )
    try:
        yield
    finally:
        holder.execute(text("SELECT RELEASE_LOCK(:name)"), name)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
