"""Brings a database to the newest schema, once, however many processes open it at the same time.

What is there is told by alembic's version table. A process that finds an older version (or none) takes the database's own lock
(SQLite: the write transaction; MySQL and MariaDB: ``GET_LOCK``; PostgreSQL: an advisory lock), looks again, and runs the scripts
that are missing. The lock is held by a connection of its own until the scripts are committed: released before that, the next
process would still find the older version. SQLite and PostgreSQL take all of the scripts or none; MySQL commits every statement, so
scripts can be run again.

A newer schema is refused: an older program would not write what the newer one relies on.
"""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util.exc import CommandError
from sqlalchemy import text

from state.errors import KeyLogUnavailable, StateCorrupt
from streaming.keylog.schema import PREFIX


if TYPE_CHECKING:
    from collections.abc import Iterator

    from sqlalchemy import Connection

    from streaming.keylog.database import Database


VERSION_TABLE: Final = f"{PREFIX}keylog_version"
LOCK_WAIT_S: Final = 60
_LOCK_NUMBER: Final = 0x7469_6465_6C6F_67  # "tidelog"


def newest_version() -> str:
    """Return the version that the scripts lead to."""
    head = ScriptDirectory.from_config(_config()).get_current_head()
    assert head is not None, "there is at least one script"
    return head


def read_version(connection: Connection) -> str | None:
    """Return the database's version; None where it has none."""
    context = MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE})
    return context.get_current_revision()


def migrate(database: Database, version: str | None = None) -> None:
    """Bring ``database`` to ``version``, by default the newest.

    Raises StateCorrupt where its schema is newer than this program, or its version cannot be told.
    """
    wanted = version or newest_version()
    try:
        with database.read() as connection:
            stored = read_version(connection)
        if stored != wanted:
            _refuse_newer(stored, database.address)
            with _locked(database):
                database.write(lambda connection: _upgrade(connection, wanted, database.address))
    except CommandError as error:
        raise StateCorrupt(
            "the key log's table of versions contradicts itself",
            address=database.address,
            table=VERSION_TABLE,
            reason=str(error)[:300],
            hint="It has one row; restore it, or use an empty database.",
        ) from error


def _upgrade(connection: Connection, wanted: str, where: str) -> None:
    stored = read_version(connection)  # another process may have been faster
    _refuse_newer(stored, where)
    if stored is None or stored < wanted:
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, wanted)


def _refuse_newer(stored: str | None, where: str) -> None:
    known = {script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions()}
    if stored is not None and stored not in known:
        raise StateCorrupt(
            "the key log was written by a newer version of Tideline",
            address=where,
            stored=stored,
            newest_known=newest_version(),
            hint="Use that version, or another database.",
        )


@contextmanager
def _locked(database: Database) -> Iterator[None]:
    """Hold the database's lock; on SQLite the writing transaction is one."""
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
def _named_lock(holder: Connection, where: str) -> Iterator[None]:
    """Hold MySQL's or MariaDB's lock, which is the connection's, not the transaction's."""
    name = {"name": f"{holder.engine.url.database}.{VERSION_TABLE}"[-64:], "wait": LOCK_WAIT_S}
    if holder.scalar(text("SELECT GET_LOCK(:name, :wait)"), name) != 1:
        raise KeyLogUnavailable("another process migrates the key log and does not end", address=where)
    try:
        yield
    finally:
        holder.execute(text("SELECT RELEASE_LOCK(:name)"), name)


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config
