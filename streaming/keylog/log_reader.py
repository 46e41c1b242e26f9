"""What was asked lately: the key log's rows as the values that ``state.columns.demand`` ranks.

One statement reads the window, so the answer is one moment of the database. It is grouped by key, user and day there, and put
together here: distinct users have to be known by name (for their quotas), distinct days over all of them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import and_, func, select

from state.columns.requested_keys import RequestedKey
from streaming.keylog.records import day_of, decode_members, encode_members
from streaming.keylog.schema import asked, keys


if TYPE_CHECKING:
    from sqlalchemy import Select

    from state.columns.paths import KeyPath
    from streaming.keylog.log import KeyLog


ROWS_AT_ONCE: Final = 5_000


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One row of the log as people look at it."""

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
    """Which rows of the log are looked at; None leaves a field open."""

    raw_table: str | None = None
    user: str | None = None
    source: str | None = None
    key: KeyPath | None = None
    days: int = 30


@dataclass(slots=True)
class _Folded:
    users: set[str] = field(default_factory=set)
    days: set[int] = field(default_factory=set)
    count: int = 0
    first_s: int = 1 << 62
    last_s: int = 0


def read_requested_keys(log: KeyLog, raw_table: str, days: int) -> list[RequestedKey]:
    """Return each key of ``raw_table`` asked for in the last ``days`` days (today and the ``days - 1`` before, UTC).

    ``first_s`` and ``last_s`` are those of the window. In the order of the keys.
    """
    folded: dict[bytes, _Folded] = {}
    with log.database.read() as connection:
        rows = connection.execution_options(yield_per=ROWS_AT_ONCE).execute(
            _grouped(raw_table, _since(log, days))
        )
        for digest, user, day, count, first_s, last_s in rows:
            each = folded.get(digest)
            if each is None:
                each = folded[digest] = _Folded()
            each.users.add(user)
            each.days.add(day)
            each.count += int(count)
            each.first_s, each.last_s = min(each.first_s, first_s), max(each.last_s, last_s)
        # Last: a key is stored before, or together with, the questions for it.
        named = select(keys.c.digest, keys.c.members).where(keys.c.raw_table == raw_table)
        members = {
            digest: decode_members(text) for digest, text in connection.execute(named) if digest in folded
        }
    found = (
        RequestedKey(
            members[digest], frozenset(each.users), len(each.days), each.count, each.first_s, each.last_s
        )
        for digest, each in folded.items()
        if digest in members
    )
    return sorted(found, key=lambda each: each.key)


def read_last_request_days(log: KeyLog, raw_table: str) -> dict[KeyPath, int]:
    """Return the last day (counted from 1970, UTC) on which each key was asked for, within the window or before it."""
    with log.database.read() as connection:
        wanted = select(keys.c.members, keys.c.last_day).where(keys.c.raw_table == raw_table)
        return {decode_members(members): day for members, day in connection.execute(wanted)}


def raw_tables(log: KeyLog) -> list[str]:
    """Return the raw tables that the log has keys of."""
    with log.database.read() as connection:
        return sorted(connection.scalars(select(keys.c.raw_table).distinct()))


def read_entries(log: KeyLog, wanted: LogFilter, limit: int) -> list[LogEntry]:
    """Return rows of the log, the newest first, ``limit`` at most."""
    with log.database.read() as connection:
        rows = connection.execute(_listed(wanted, _since(log, wanted.days)).limit(limit))
        return [LogEntry(raw_table, decode_members(members), *rest) for raw_table, members, *rest in rows]


def _since(log: KeyLog, days: int) -> int:
    return day_of(int(log.clock())) - days + 1


def _grouped(raw_table: str, since_day: int) -> Select[Any]:
    of_table = select(keys.c.digest).where(keys.c.raw_table == raw_table)
    return (
        select(
            asked.c.key_digest,
            asked.c.user_name,
            asked.c.day,
            func.sum(asked.c.asked_count),
            func.min(asked.c.first_at),
            func.max(asked.c.last_at),
        )
        .where(and_(asked.c.day >= since_day, asked.c.key_digest.in_(of_table)))
        .group_by(asked.c.key_digest, asked.c.user_name, asked.c.day)
    )


def _listed(wanted: LogFilter, since_day: int) -> Select[Any]:
    statement = (
        select(
            keys.c.raw_table,
            keys.c.members,
            asked.c.day,
            asked.c.user_name,
            asked.c.source,
            asked.c.fingerprint,
            asked.c.asked_count,
            asked.c.first_at,
            asked.c.last_at,
        )
        .join(keys, keys.c.digest == asked.c.key_digest)
        .where(asked.c.day >= since_day)
        .order_by(asked.c.day.desc(), asked.c.last_at.desc(), keys.c.path, asked.c.user_name)
    )
    for column, value in (
        (keys.c.raw_table, wanted.raw_table),
        (asked.c.user_name, wanted.user),
        (asked.c.source, wanted.source),
        (keys.c.members, None if wanted.key is None else encode_members(wanted.key)),
    ):
        if value is not None:
            statement = statement.where(column == value)
    return statement
