"""Forgetting: rows older than anybody counts are deleted, a bounded number in each transaction.

A key itself goes when its newest question is that old. A question recorded at the same moment moves that day and holds the
key's row until it is committed, so the deletion, which asks for the day once more, spares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, delete, func, select, tuple_

from streaming.keylog.asking import day_of
from streaming.keylog.schema import asked, keys


if TYPE_CHECKING:
    from sqlalchemy import Connection

    from streaming.keylog.log import KeyLog


ROWS_PER_TRANSACTION: Final = 2_000
TRANSACTIONS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was deleted, or would be."""

    rows: int
    keys: int
    is_complete: bool
    """Nothing that old is left; else another run goes on."""


def old_rows(log: KeyLog, keep_days: int) -> Forgotten:
    """Count what ``forget`` would delete."""
    before = _before(log, keep_days)
    with log.database.read() as connection:
        rows = connection.scalar(select(func.count()).select_from(asked).where(asked.c.day < before))
        old_keys = connection.scalar(select(func.count()).select_from(keys).where(keys.c.last_day < before))
    return Forgotten(rows or 0, old_keys or 0, is_complete=True)


def forget(log: KeyLog, keep_days: int, transactions_max: int = TRANSACTIONS_MAX) -> Forgotten:
    """Delete the rows of days before the last ``keep_days`` (today counts), then the keys without any."""
    before, rows, gone = _before(log, keep_days), 0, 0
    for _ in range(transactions_max):
        deleted = log.database.write(lambda connection: _forget_rows(connection, before))
        rows += deleted
        if deleted < ROWS_PER_TRANSACTION:
            break
    else:
        return Forgotten(rows, 0, is_complete=False)
    for _ in range(transactions_max):
        deleted = log.database.write(lambda connection: _forget_keys(connection, before))
        gone += deleted
        if deleted < ROWS_PER_TRANSACTION:
            return Forgotten(rows, gone, is_complete=True)
    return Forgotten(rows, gone, is_complete=False)


def _before(log: KeyLog, keep_days: int) -> int:
    assert keep_days >= 1, keep_days
    return day_of(int(log.clock())) - keep_days + 1


def _forget_rows(connection: Connection, before_day: int) -> int:
    # The primary keys first: DELETE … LIMIT is MySQL's alone, and its LIMIT in a subquery nobody's.
    key = tuple(asked.primary_key)
    oldest = select(*key).where(asked.c.day < before_day).order_by(*key).limit(ROWS_PER_TRANSACTION)
    found = [tuple(row) for row in connection.execute(oldest)]
    if found:
        connection.execute(delete(asked).where(and_(asked.c.day < before_day, tuple_(*key) <= found[-1])))
    return len(found)


def _forget_keys(connection: Connection, before_day: int) -> int:
    oldest = select(keys.c.digest).where(keys.c.last_day < before_day).limit(ROWS_PER_TRANSACTION)
    found = list(connection.scalars(oldest))
    if found:
        connection.execute(delete(keys).where(and_(keys.c.last_day < before_day, keys.c.digest.in_(found))))
    return len(found)
