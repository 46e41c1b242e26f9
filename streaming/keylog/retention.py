"""Forgetting: rows older than anybody counts are deleted, a bounded number in each transaction.

A key itself goes when its newest question is that old. A question recorded at the same moment moves that day and holds the
key's row until it is committed, so the deletion, which asks for the day once more, spares it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import and_, delete, func, select, tuple_

from streaming.keylog.records import DAY_S, day_of
from streaming.keylog.schema import asked, flat_changes, keys


if TYPE_CHECKING:
    from sqlalchemy import Column, ColumnElement, Connection, Table

    from streaming.keylog.log import KeyLog


ROWS_PER_TRANSACTION: Final = 2_000
TRANSACTIONS_MAX: Final = 500


@dataclass(frozen=True, slots=True)
class DeletedRows:
    """What was deleted, or would be."""

    rows: int
    keys: int
    changes: int
    """Of flat tables' columns."""
    is_complete: bool
    """Nothing that old is left; else another run goes on."""


def count_old_rows(log: KeyLog, keep_days: int) -> DeletedRows:
    """Count what ``delete_old_rows`` would delete."""
    before = _before(log, keep_days)
    with log.database.read() as connection:
        rows, gone, changes = (
            connection.scalar(select(func.count()).select_from(each.table).where(each.is_old(before))) or 0
            for each in (_ASKED, _KEYS, _CHANGES)
        )
    return DeletedRows(rows, gone, changes, is_complete=True)


def delete_old_rows(log: KeyLog, keep_days: int, transactions_max: int = TRANSACTIONS_MAX) -> DeletedRows:
    """Delete the questions of days before the last ``keep_days`` (today counts), then the keys without any, and old changes."""
    before = _before(log, keep_days)
    rows, is_complete = _deleted(log, _ASKED, before, transactions_max)
    gone = changes = 0
    if is_complete:  # a key goes after its questions
        gone, is_complete = _deleted(log, _KEYS, before, transactions_max)
    if is_complete:
        changes, is_complete = _deleted(log, _CHANGES, before, transactions_max)
    return DeletedRows(rows, gone, changes, is_complete=is_complete)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Rows that grow old: their table, and the column that tells the moment in units of so many seconds."""

    table: Table
    moment: Column[int]
    unit_s: int

    def is_old(self, before_day: int) -> ColumnElement[bool]:
        return self.moment < before_day * DAY_S // self.unit_s


_ASKED: Final = _Kind(asked, asked.c.day, DAY_S)
_KEYS: Final = _Kind(keys, keys.c.last_day, DAY_S)
_CHANGES: Final = _Kind(flat_changes, flat_changes.c.at, 1)


def _before(log: KeyLog, keep_days: int) -> int:
    assert keep_days >= 1, keep_days
    return day_of(int(log.clock())) - keep_days + 1


def _deleted(log: KeyLog, kind: _Kind, before_day: int, transactions_max: int) -> tuple[int, bool]:
    """Delete old rows; return how many, and whether that was all."""
    rows = 0
    for _ in range(transactions_max):
        deleted = log.database.write(lambda connection: _delete_some(connection, kind, before_day))
        rows += deleted
        if deleted < ROWS_PER_TRANSACTION:
            return rows, True
    return rows, False


def _delete_some(connection: Connection, kind: _Kind, before_day: int) -> int:
    # The primary keys first: DELETE … LIMIT is MySQL's alone, and its LIMIT in a subquery nobody's.
    key = tuple(kind.table.primary_key)
    oldest = select(*key).where(kind.is_old(before_day)).order_by(*key).limit(ROWS_PER_TRANSACTION)
    found = [tuple(row) for row in connection.execute(oldest)]
    if found:
        up_to_last = tuple_(*key) <= tuple_(*found[-1])
        connection.execute(delete(kind.table).where(and_(kind.is_old(before_day), up_to_last)))
    return len(found)
