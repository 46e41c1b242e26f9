"""What a database's failures mean to a caller of the key log, so that no SQLAlchemy error leaves this package.

Neither messages nor tracebacks show values: the engine hides parameters, and a driver's own text is cut to its first line.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from sqlalchemy import exc

from state.errors import BadInput, InvalidRequest, KeyLogUnavailable, StateCorrupt, TidelineError


if TYPE_CHECKING:
    from collections.abc import Iterator


REASON_CHARS_MAX: Final = 300
_COLLISIONS: Final = {"40001", "40P01", "55P03", "1205", "1213", "1020", "SQLITE_BUSY", "SQLITE_LOCKED"}
"""Serialisation failure, deadlock and lock not available (PostgreSQL); lock wait, deadlock and changed record (MySQL, MariaDB)."""
_DAMAGED: Final = {"SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_FORMAT"}


@contextmanager
def database_errors(where: str) -> Iterator[None]:
    """Raise every error of SQLAlchemy in the block as one of Tideline's tree; ``where`` is the address without password."""
    try:
        yield
    except exc.SQLAlchemyError as error:
        raise typed_error(error, where) from error


def is_collision(error: exc.SQLAlchemyError) -> bool:
    """Whether the transaction met another one and may simply be repeated."""
    return isinstance(error, exc.DBAPIError) and _code(error) in _COLLISIONS


def typed_error(error: exc.SQLAlchemyError, where: str) -> TidelineError:
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
