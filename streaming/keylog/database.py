"""One database under the key log: its engine, its transactions, and what the dialects do differently.

A writing transaction that meets another one (a deadlock, a lock held too long) is repeated whole, a few times: ``write`` takes
the work as a function for that reason. SQLite runs in WAL mode with ``BEGIN IMMEDIATE`` for writers, so that several
processes queue up instead of failing on a lock upgrade. ``synchronous=NORMAL``: a power loss may take the newest transactions,
never a part of one, and the sources' positions go back together with what was read up to them.
"""

from __future__ import annotations

import random
import time
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import SQLITE_BUSY, OperationalError
from typing import TYPE_CHECKING, Any, Final, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, exc, func, make_url
from sqlalchemy.dialects import mysql, postgresql, sqlite
from sqlalchemy.exc import ArgumentError

from state.errors import BadInput, ConfigError, InvalidRequest, KeyLogUnavailable, StateCorrupt, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from sqlite3 import Connection as SqliteConnection

    from sqlalchemy import ColumnElement, Dialect, Table

    Merge = Callable[[ColumnElement[Any], ColumnElement[Any]], ColumnElement[Any]]
    """Combines a stored value and a new one."""


ATTEMPTS_MAX: Final = 8
PAUSE_S: Final = 0.05
SQLITE_WAIT_S: Final = 60
CONNECT_TIMEOUT_S: Final = 10
_EXTRAS: Final = {"mysql": "mysql", "mariadb": "mysql", "postgresql": "postgresql"}

Result = TypeVar("Result")


class Database:
    """An open database. Usable from several threads; closed by ``close``."""

    def __init__(self, address: str, password: str | None = None) -> None:
        url = parse_address(address, password)
        self.address = format_address(url)
        make_directory(url)
        self._engine = _engine(url)

    @property
    def dialect(self) -> str:
        """Which database it is: sqlite, mysql, mariadb or postgresql."""
        return self._engine.dialect.name

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """Open a transaction that only reads."""
        with convert_errors(self.address), self._engine.begin() as connection:
            yield connection

    def write(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work`` in a transaction, again where it met another one; it takes effect when ``work`` has returned.

        Raises KeyLogUnavailable and the others of ``failures`` for the database's errors; those of ``work`` pass through.
        """
        with convert_errors(self.address):
            for attempt in range(1, ATTEMPTS_MAX + 1):
                try:
                    return self._write_once(work)
                except exc.DBAPIError as error:
                    if not is_collision(error) or attempt == ATTEMPTS_MAX:
                        raise
                    time.sleep(PAUSE_S * attempt * random.uniform(0.5, 1.5))  # noqa: S311 - jitter is no secret
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
    """Insert the rows whose primary key is not there yet, and leave the others as they stand."""
    if not rows:
        return
    if connection.dialect.name in {"mysql", "mariadb"}:
        # Not INSERT IGNORE, which would also cut texts that are too long.
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
    """Insert the rows; where the primary key is there, set each column of ``changes`` from (stored, new).

    The rows have different primary keys (PostgreSQL allows no other), and come in the order of the primary key, so that
    two writers take their locks in one order.
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
    """Return the function of two values that gives the greater one, under this dialect's name."""
    return func.max if connection.dialect.name == "sqlite" else func.greatest


def lesser(connection: Connection) -> Merge:
    """Return the function of two values that gives the lesser one, under this dialect's name."""
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
            hint=f"Install it: pip install 'tideline[{_EXTRAS.get(backend, 'flat')}]'.",
        ) from error
    except exc.ArgumentError as error:
        raise ConfigError("the key log's address has an option that its driver does not know") from error
    if backend == "sqlite":
        event.listen(engine, "connect", _prepare_sqlite)
        event.listen(engine, "begin", _begin_sqlite)
    return engine


def _prepare_sqlite(connection: SqliteConnection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where this module says so
    _keep_wal(connection)
    connection.execute("PRAGMA synchronous = NORMAL")


def _keep_wal(connection: SqliteConnection) -> None:
    """Put a new file into WAL mode; of processes that do so at once, SQLite refuses all but one without waiting."""
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


_DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "mariadb": "pymysql", "postgresql": "psycopg"}
_WANTED: Final = (
    "One of sqlite:///FILE, mysql://USER@HOST/DATABASE, mariadb://… and postgresql://USER@HOST/DATABASE."
)


def parse_address(text: str, password: str | None = None) -> URL:
    """Return the URL, with its driver and password; raise ConfigError where the key log knows no such database."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("the key log's address is no URL of a database", hint=_WANTED) from None
    backend, _, driver = url.drivername.partition("+")
    if driver not in {"", _DRIVERS.get(backend)} or backend not in _DRIVERS:
        raise ConfigError("the key log knows no such database", driver=url.drivername, hint=_WANTED)
    if not url.database:
        raise ConfigError(
            "the key log's address names no database", address=format_address(url), hint=_WANTED
        )
    url = url.set(drivername=f"{backend}+{_DRIVERS[backend]}")
    return url if password is None else url.set(password=password)


def format_address(url: URL) -> str:
    """Return the address as it may be shown."""
    return url.set(drivername=url.get_backend_name(), query={}).render_as_string(hide_password=True)


def make_directory(url: URL) -> None:
    """Make the directory of an SQLite file; raise ConfigError where that is not allowed."""
    if url.get_backend_name() != "sqlite" or url.database in {None, ":memory:"}:
        return
    directory = Path(str(url.database)).parent
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "the key log's directory cannot be made", path=str(directory), reason=error.strerror
        ) from None


REASON_CHARS_MAX: Final = 300
_COLLISIONS: Final = {"40001", "40P01", "55P03", "1205", "1213", "1020", "SQLITE_BUSY", "SQLITE_LOCKED"}
"""Serialisation failure, deadlock and lock not available (PostgreSQL); lock wait, deadlock and changed record (MySQL, MariaDB)."""
_DAMAGED: Final = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"}


@contextmanager
def convert_errors(where: str) -> Iterator[None]:
    """Raise every error of SQLAlchemy in the block as one of Tideline's tree; ``where`` is the address without password."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise convert_error(error, where) from error


def is_collision(error: exc.SQLAlchemyError) -> bool:
    """Whether the transaction met another one and may simply be repeated."""
    return isinstance(error, exc.DBAPIError) and _code(error) in _COLLISIONS


def convert_error(error: exc.SQLAlchemyError, where: str) -> TidelineError:
    """Return the error of Tideline's tree that ``error`` stands for."""
    reason = _reason(error)
    if isinstance(error, exc.DBAPIError) and _code(error) in _DAMAGED:
        return StateCorrupt(
            "the key log's file is damaged or no database",
            address=where,
            reason=reason,
            hint="Move it away: the query sources are then mined again, as far as they still reach.",
        )
    if isinstance(error, exc.DataError):
        return BadInput("the database refuses a value", address=where, reason=reason)
    if isinstance(error, exc.IntegrityError):
        return StateCorrupt("the key log contradicts itself", address=where, reason=reason)
    if isinstance(error, exc.ProgrammingError | exc.NotSupportedError):
        return InvalidRequest(
            "the database refuses a statement of the key log",
            address=where,
            reason=reason,
            hint="Its user needs to create, read and change the tables tideline_*; docs/KEYS.md tells the grants.",
        )
    return KeyLogUnavailable("the key log's database did not do what was asked", address=where, reason=reason)


def _code(error: exc.DBAPIError) -> str:
    """Return SQLSTATE, MySQL's number or SQLite's name of the error, whichever the driver tells."""
    origin = error.orig
    told = getattr(origin, "sqlstate", None) or getattr(origin, "sqlite_errorname", None)
    if told:
        return "SQLITE_BUSY" if str(told).startswith("SQLITE_BUSY") else str(told)
    return str(origin.args[0]) if origin is not None and origin.args else ""


def _reason(error: exc.SQLAlchemyError) -> str:
    origin = error.orig if isinstance(error, exc.DBAPIError) else error
    return (str(origin).strip().splitlines() or [""])[0][:REASON_CHARS_MAX]
