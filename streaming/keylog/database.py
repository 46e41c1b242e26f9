"""The key log's database: address, engine, transactions, differences between dialects, and errors.

If a writing transaction collides with another one (a deadlock, a lock held too long), ``write`` repeats it as
a whole, a few times. For that reason, it takes the work as a function.

SQLite runs in WAL mode with ``BEGIN IMMEDIATE`` for writers, so that several processes queue instead of
failing on a lock upgrade. With ``synchronous=NORMAL``, a power failure may lose the newest transactions, but
never a part of one. The requests and the positions of their sources are in the same transactions, so both are
lost together and read again.

No SQLAlchemy error leaves this package: ``convert_errors`` raises errors of Tideline's tree instead. Neither
messages nor tracebacks show values or passwords. The engine hides parameters, and an error has only the first
line of a driver's text.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError
from sqlite3 import Connection as SqliteConnection
from typing import Any, Final, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Dialect,
    Engine,
    Table,
    create_engine,
    event,
    exc,
    func,
    make_url,
)
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import ArgumentError

from state.errors import BadInput, ConfigError, InvalidRequest, KeyLogUnavailable, StateCorrupt, TidelineError
from state.store.sqlite_file import make_private


Merge = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]
"""Combines a stored value and a new one."""


ATTEMPTS_MAX: Final = 8
PAUSE_S: Final = 0.05
SQLITE_WAIT_S: Final = 60
CONNECT_TIMEOUT_S: Final = 10
REASON_CHARS_MAX: Final = 300
_COLLISIONS: Final = {"40001", "40P01", "55P03", "1205", "1213", "1020", "SQLITE_BUSY", "SQLITE_LOCKED"}
"""Serialization failure, deadlock and lock not available (PostgreSQL); lock wait, deadlock and changed record
(MySQL, MariaDB)."""
_DAMAGED: Final = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"}
_DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "mariadb": "pymysql", "postgresql": "psycopg"}
_ADDRESS_HINT: Final = (
    "Use sqlite:///FILE, mysql://USER@HOST/DATABASE, mariadb://USER@HOST/DATABASE or "
    "postgresql://USER@HOST/DATABASE."
)
_EXTRAS: Final = {"mysql": "mysql", "mariadb": "mysql", "postgresql": "postgresql"}

Result = TypeVar("Result")


class Database:
    """An open database. Thread-safe. Call ``close`` at the end."""

    def __init__(self, address: str, password: str | None = None) -> None:
        url = parse_address(address, password)
        self.address = format_address(url)
        make_directory(url)
        self._engine = _engine(url)

    @property
    def dialect(self) -> str:
        """The kind of database: sqlite, mysql, mariadb or postgresql."""
        return self._engine.dialect.name

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a read-only transaction."""
        with convert_errors(self.address), self._engine.begin() as connection:
            yield connection

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work`` in a transaction, which commits when ``work`` returns; repeat it after a collision.

        Raises errors of the database as ``convert_errors`` does; errors of ``work`` pass through.
        """
        with convert_errors(self.address):
            for attempt in range(1, ATTEMPTS_MAX + 1):
                try:
                    return self._write_once(work)
                except exc.DBAPIError as error:
                    if not is_collision(error) or attempt == ATTEMPTS_MAX:
                        raise
                    # S311: jitter need not be unpredictable
                    time.sleep(PAUSE_S * attempt * random.uniform(0.5, 1.5))  # noqa: S311
            raise AssertionError("the last attempt returns or raises")

    def _write_once(self, work: Callable[[Connection], Result]) -> Result:
        with self._engine.connect() as connection:
            writing = connection.execution_options(tideline_writes=True)
            with writing.begin():
                return work(writing)

    def close(self) -> None:
        """Close every connection."""
        self._engine.dispose()


def insert_new(connection: Connection, table: Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert the rows whose primary key does not exist yet; existing rows stay unchanged."""
    if not rows:
        return
    if connection.dialect.name in {"mysql", "mariadb"}:
        # INSERT IGNORE would also truncate texts that are too long.
        first = next(iter(table.primary_key))
        upsert = mysql.insert(table).on_duplicate_key_update({first.name: first})
        connection.execute(upsert, list(rows))
        return
    connection.execute(_insert(connection.dialect, table).on_conflict_do_nothing(), list(rows))


def upsert(
    connection: Connection,
    table: Table,
    rows: Sequence[Mapping[str, Any]],
    changes: Mapping[str, Merge],
) -> None:
    """Insert the rows. If a primary key exists, set each column in ``changes`` from its stored and its new
    value.

    The rows must have different primary keys, which PostgreSQL requires. They must be in the order of the
    primary key, so that two writers take their locks in the same order.
    """
    if not rows:
        return
    if connection.dialect.name in {"mysql", "mariadb"}:
        into = mysql.insert(table)
        values = {name: change(table.c[name], into.inserted[name]) for name, change in changes.items()}
        connection.execute(into.on_duplicate_key_update(values), list(rows))
        return
    insert = _insert(connection.dialect, table)
    values = {name: change(table.c[name], insert.excluded[name]) for name, change in changes.items()}
    connection.execute(
        insert.on_conflict_do_update(index_elements=list(table.primary_key), set_=values), list(rows)
    )


def greater(connection: Connection) -> Merge:
    """Return this dialect's SQL function for the greater of two values."""
    return func.max if connection.dialect.name == "sqlite" else func.greatest


def lesser(connection: Connection) -> Merge:
    """Return this dialect's SQL function for the lesser of two values."""
    return func.min if connection.dialect.name == "sqlite" else func.least


def _insert(dialect: Dialect, table: Table) -> sqlite.Insert | postgresql.Insert:
    return sqlite.insert(table) if dialect.name == "sqlite" else postgresql.insert(table)


def _engine(url: URL) -> Engine:
    backend = url.get_backend_name()
    try:
        engine = create_engine(
            url,
            hide_parameters=True,
            pool_pre_ping=backend != "sqlite",
            pool_recycle=3_600,
            connect_args={"timeout": SQLITE_WAIT_S}
            if backend == "sqlite"
            else {"connect_timeout": CONNECT_TIMEOUT_S},
        )
    except ImportError as error:
        raise ConfigError(
            "the driver of the key log's database is not installed",
            driver=url.drivername,
            hint=f"Install it with pip install 'tideline[{_EXTRAS.get(backend, 'flat')}]'.",
        ) from error
    except exc.ArgumentError as error:
        raise ConfigError(
            "the key log's address contains an option that its driver does not support"
        ) from error
    if backend == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: SqliteConnection, _record: object) -> None:
    connection.isolation_level = None  # this module begins transactions itself
    _keep_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")


def _keep_wal(connection: SqliteConnection) -> None:
    """Set WAL mode on a new file. Retries, because SQLite refuses without waiting if several processes do so
    at once.
    """
    deadline_s = time.monotonic() + SQLITE_WAIT_S
    while connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except OperationalError as error:
            if error.sqlite_errorcode != SQLITE_BUSY or time.monotonic() > deadline_s:
                raise
            time.sleep(PAUSE_S)


def _begin_sqlite(connection: Connection) -> None:
    writes = connection.get_execution_options().get("tideline_writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def parse_address(text: str, password: str | None = None) -> URL:
    """Return the URL with its driver and password; raise ConfigError for an unsupported database."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("the key log's address must be the URL of a database", hint=_ADDRESS_HINT) from None
    backend, _, driver = url.drivername.partition("+")
    if driver not in {"", _DRIVERS.get(backend)} or backend not in _DRIVERS:
        raise ConfigError(
            "the key log does not support this database", driver=url.drivername, hint=_ADDRESS_HINT
        )
    if not url.database:
        raise ConfigError(
            "the key log's address must name a database", address=format_address(url), hint=_ADDRESS_HINT
        )
    url = url.set(drivername=f"{backend}+{_DRIVERS[backend]}")
    return url if password is None else url.set(password=password)


def format_address(url: URL) -> str:
    """Return the address without its password and options, for messages."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def make_directory(url: URL) -> None:
    """Create the directory of an SQLite file; raise ConfigError if that fails."""
    if url.get_backend_name() != "sqlite" or url.database in {None, ":memory:"}:
        return
    directory = Path(str(url.database)).parent
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "the key log's directory cannot be created", path=str(directory), reason=error.strerror
        ) from None
    make_private(str(url.database))


@contextmanager
def convert_errors(address: str) -> Iterator[None]:
    """Convert every SQLAlchemy error of the block to an error of Tideline's tree. ``address`` must not
    contain the password.
    """
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise convert_error(error, address) from error


def is_collision(error: exc.SQLAlchemyError) -> bool:
    """Whether the transaction collided with another one, so that the caller can repeat it."""
    return isinstance(error, exc.DBAPIError) and _code(error) in _COLLISIONS


def convert_error(error: exc.SQLAlchemyError, address: str) -> TidelineError:
    """Return the error of Tideline's tree that corresponds to ``error``."""
    reason = _reason(error)
    if isinstance(error, exc.DBAPIError) and _code(error) in _DAMAGED:
        return StateCorrupt(
            "the key log's file is damaged or is not a database",
            address=address,
            reason=reason,
            hint="Move the file away. The query sources are then mined again as far back as they reach.",
        )
    if isinstance(error, exc.DataError):
        return BadInput("the database refuses a value", address=address, reason=reason)
    if isinstance(error, exc.IntegrityError):
        return StateCorrupt("the key log is inconsistent", address=address, reason=reason)
    if isinstance(error, exc.ProgrammingError | exc.NotSupportedError):
        return InvalidRequest(
            "the database refuses a statement of the key log",
            address=address,
            reason=reason,
            hint="Grant its user the rights to create, read and change the tables tideline_*. "
            "docs/KEYS.md lists the grants.",
        )
    return KeyLogUnavailable(
        "the key log's database cannot complete a request", address=address, reason=reason
    )


def _code(error: exc.DBAPIError) -> str:
    """Return SQLSTATE, MySQL's number or SQLite's name of the error, whichever the driver provides."""
    origin = error.orig
    name = getattr(origin, "sqlstate", None) or getattr(origin, "sqlite_errorname", None)
    if name:
        return "SQLITE_BUSY" if str(name).startswith("SQLITE_BUSY") else str(name)
    return str(origin.args[0]) if origin is not None and origin.args else ""


def _reason(error: exc.SQLAlchemyError) -> str:
    origin = error.orig if isinstance(error, exc.DBAPIError) else error
    return (str(origin).strip().splitlines() or [""])[0][:REASON_CHARS_MAX]
