"""Reads the key log: the requested keys of the last days, ranked by ``state.columns.demand``, and single rows
for display.

One statement reads the window, so the answer is a consistent state of the database. The database groups the
rows by key, user and day. This module aggregates further, because quotas need the names of the distinct
users, and ranks need the distinct days over all users.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from sqlalchemy import Select, and_, func, select

from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey
from streaming.keylog.log import KeyLog
from streaming.keylog.records import day_of, decode_members, encode_members
from streaming.keylog.schema import key_table, request_table


ROWS_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One row of the log, for display."""

    raw_table: str
    key: KeyPath
    day: int
    user: str
    source: str
    fingerprint: str
    count: int
    first_s: int
    last_s: int


@dataclass(frozen=True, slots=True)
class LogFilter:
    """A filter for rows of the log. A field that is None matches every value."""

    raw_table: str | None = None
    user: str | None = None
    source: str | None = None
    key: KeyPath | None = None
    days: int = 30


@dataclass(slots=True)
class _Total:
    users: set[str] = field(default_factory=set)
    days: set[int] = field(default_factory=set)
    count: int = 0
    first_s: int = 1 << 62
    last_s: int = 0


def read_requested_keys(log: KeyLog, raw_table: str, days: int) -> list[RequestedKey]:
    """Return the keys of ``raw_table`` requested in the last ``days`` days (UTC, including today), in order.

    ``first_s`` and ``last_s`` refer to this window.
    """
    totals: dict[bytes, _Total] = {}
    with log.database.read() as connection:
        rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(
            _window_query(raw_table, _since(log, days))
        )
        for digest, user, day, count, first_s, last_s in rows:
            each = totals.get(digest)
            if each is None:
                each = totals[digest] = _Total()
            each.users.add(user)
            each.days.add(day)
            each.count += int(count)
            each.first_s, each.last_s = min(each.first_s, first_s), max(each.last_s, last_s)
        # Read keys last, because the log stores a key before the requests for it, or together with them.
        named = select(key_table.c.digest, key_table.c.members).where(key_table.c.raw_table == raw_table)
        members = {
            digest: decode_members(text) for digest, text in connection.execute(named) if digest in totals
        }
    found = (
        RequestedKey(
            members[digest], frozenset(each.users), len(each.days), each.count, each.first_s, each.last_s
        )
        for digest, each in totals.items()
        if digest in members
    )
    return sorted(found, key=lambda each: each.key)


def read_last_request_days(log: KeyLog, raw_table: str) -> dict[KeyPath, int]:
    """Return for each key the last day with a request (days since 1970, UTC), even if it is before the
    window.
    """
    with log.database.read() as connection:
        query = select(key_table.c.members, key_table.c.last_day).where(key_table.c.raw_table == raw_table)
        return {decode_members(members): day for members, day in connection.execute(query)}


def read_entries(log: KeyLog, log_filter: LogFilter, limit: int) -> list[LogEntry]:
    """Return at most ``limit`` rows of the log, the newest first."""
    with log.database.read() as connection:
        rows = connection.execute(_entry_query(log_filter, _since(log, log_filter.days)).limit(limit))
        return [LogEntry(raw_table, decode_members(members), *rest) for raw_table, members, *rest in rows]


def _since(log: KeyLog, days: int) -> int:
    return day_of(int(log.clock())) - days + 1


def _window_query(raw_table: str, since_day: int) -> Select[Any]:
    of_table = select(key_table.c.digest).where(key_table.c.raw_table == raw_table)
    return (
        select(
            request_table.c.key_digest,
            request_table.c.user_name,
            request_table.c.day,
            func.sum(request_table.c.run_count),
            func.min(request_table.c.first_at),
            func.max(request_table.c.last_at),
        )
        .where(and_(request_table.c.day >= since_day, request_table.c.key_digest.in_(of_table)))
        .group_by(request_table.c.key_digest, request_table.c.user_name, request_table.c.day)
    )


def _entry_query(log_filter: LogFilter, since_day: int) -> Select[Any]:
    statement = (
        select(
            key_table.c.raw_table,
            key_table.c.members,
            request_table.c.day,
            request_table.c.user_name,
            request_table.c.source,
            request_table.c.fingerprint,
            request_table.c.run_count,
            request_table.c.first_at,
            request_table.c.last_at,
        )
        .join(key_table, key_table.c.digest == request_table.c.key_digest)
        .where(request_table.c.day >= since_day)
        .order_by(
            request_table.c.day.desc(),
            request_table.c.last_at.desc(),
            key_table.c.path,
            request_table.c.user_name,
        )
    )
    for column, value in (
        (key_table.c.raw_table, log_filter.raw_table),
        (request_table.c.user_name, log_filter.user),
        (request_table.c.source, log_filter.source),
        (key_table.c.members, None if log_filter.key is None else encode_members(log_filter.key)),
    ):
        if value is not None:
            statement = statement.where(column == value)
    return statement
