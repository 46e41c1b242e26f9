"""The key log's address: SQLAlchemy's URL, with the drivers that Tideline is tested with, and never shown with its password."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from state.errors import ConfigError


_DRIVERS: Final = {"sqlite": "pysqlite", "mysql": "pymysql", "mariadb": "pymysql", "postgresql": "psycopg"}
_WANTED: Final = (
    "One of sqlite:///FILE, mysql://USER@HOST/DATABASE, mariadb://… and postgresql://USER@HOST/DATABASE."
)


def read_address(text: str, password: str | None = None) -> URL:
    """Return the URL, with its driver and password; raise ConfigError where the key log knows no such database."""
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("the key log's address is no URL of a database", hint=_WANTED) from None
    backend, _, driver = url.drivername.partition("+")
    if driver not in {"", _DRIVERS.get(backend)} or backend not in _DRIVERS:
        raise ConfigError("the key log knows no such database", driver=url.drivername, hint=_WANTED)
    if not url.database:
        raise ConfigError("the key log's address names no database", address=shown(url), hint=_WANTED)
    url = url.set(drivername=f"{backend}+{_DRIVERS[backend]}")
    return url if password is None else url.set(password=password)


def shown(url: URL) -> str:
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
