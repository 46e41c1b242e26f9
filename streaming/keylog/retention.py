"""Retention: deletes rows that are too old to count, a bounded number in each transaction.

Retention deletes a key when the day of its newest request is too old. If another process records a request at
the same moment, it updates that day and locks the key's row until it commits. The deletion then checks the
day once more and keeps the key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, delete, func, select, tuple_

from streaming.keylog.records import DAY_S, day_of
from streaming.keylog.schema import change_table, key_table, request_table


if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Table

    from streaming.keylog.log import KeyLog


ROWS_PER_TRANSACTION: Final = 2_000
TRANSACTIONS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """The rows that were deleted or would be deleted."""

    rows: int
    keys: int
    changes: int
    """Changes of flat tables' columns."""
    is_complete: bool
    """Whether no old rows are left; otherwise another run continues."""


def count_old_rows(log: KeyLog, keep_days: int) -> DeletedRows:
    """Count the rows that ``delete_old_rows`` would delete."""
    before = _first_kept_day(log, keep_days)
    with log.database.read() as connection:
        rows, gone, changes = (
            connection.scalar(select(func.count()).select_from(each.table).where(each.is_old(before))) or 0
            for each in (_REQUESTS, _KEYS, _CHANGES)
        )
    return DeletedRows(rows, gone, changes, is_complete=True)


def delete_old_rows(log: KeyLog, keep_days: int, transactions_max: int = TRANSACTIONS_MAX) -> DeletedRows:
    """Delete requests older than the last ``keep_days`` days (including today), then keys without requests,
    then old changes.
    """
    before = _first_kept_day(log, keep_days)
    rows, is_complete = _delete(log, _REQUESTS, before, transactions_max)
    gone = changes = 0
    if is_complete:  # deletes a key only after its requests
        gone, is_complete = _delete(log, _KEYS, before, transactions_max)
    if is_complete:
        changes, is_complete = _delete(log, _CHANGES, before, transactions_max)
    return DeletedRows(rows, gone, changes, is_complete=is_complete)


@dataclass(frozen=True, slots=True)
class _ExpiringRows:
    """A kind of rows that expire: their table, and the column that holds their time in units of ``unit_s``
    seconds.
    """

    table: Table
    time: Column[int]
    unit_s: int

    def is_old(self, before_day: int) -> ColumnElement[bool]:
        return self.time < before_day * DAY_S // self.unit_s


_REQUESTS: Final = _ExpiringRows(request_table, request_table.c.day, DAY_S)
_KEYS: Final = _ExpiringRows(key_table, key_table.c.last_day, DAY_S)
_CHANGES: Final = _ExpiringRows(change_table, change_table.c.at, 1)


def _first_kept_day(log: KeyLog, keep_days: int) -> int:
    assert keep_days >= 1, keep_days
    return day_of(int(log.clock())) - keep_days + 1


def _delete(log: KeyLog, kind: _ExpiringRows, before_day: int, transactions_max: int) -> tuple[int, bool]:
    """Delete some old rows; return their number, and whether all are deleted."""
    rows = 0
    for _ in range(transactions_max):
        deleted = log.database.write(lambda connection: _delete_some(connection, kind, before_day))
        rows += deleted
        if deleted < ROWS_PER_TRANSACTION:
            return rows, True
    return rows, False


def _delete_some(connection: Connection, kind: _ExpiringRows, before_day: int) -> int:
    # Select primary keys first: only MySQL has DELETE … LIMIT, and it does not allow LIMIT in such a
    # subquery.
    key = tuple(kind.table.primary_key)
    oldest = select(*key).where(kind.is_old(before_day)).order_by(*key).limit(ROWS_PER_TRANSACTION)
    rows = [tuple(row) for row in connection.execute(oldest)]
    if rows:
        up_to_last = tuple_(*key) <= tuple_(*rows[-1])
        connection.execute(delete(kind.table).where(and_(kind.is_old(before_day), up_to_last)))
    return len(rows)
