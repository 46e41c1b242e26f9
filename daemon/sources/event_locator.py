"""Finds out which database and table an event concerns that the metastore cannot return, because its message is too large.

The metastore counts events by database and table without reading their messages. All databases are asked in turn, then the tables of
the one that has the event are halved until one is left. An event of a database that no longer exists is not found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import TidelineError, Transient


if TYPE_CHECKING:
    from collections.abc import Sequence

    from daemon.sources.write_events import NotificationLog


def locate_event(log: NotificationLog, event_id: int) -> tuple[str | None, str | None]:
    """Return the names of the event's database and table, None if they cannot be found; raise Transient."""
    try:
        for db in log.database_names():
            if log.has_event(event_id, db):
                return db, _find_table(log, event_id, db, log.table_names(db))
    except Transient:
        raise
    except TidelineError:
        pass  # this Hive version cannot count
    return None, None


def _find_table(log: NotificationLog, event_id: int, db: str, tables: Sequence[str]) -> str | None:
    """Return the one of ``tables`` that the event concerns; None if it concerns another one, or the database."""
    if not tables or not log.has_event(event_id, db, tables):
        return None
    while len(tables) > 1:
        half = tables[: len(tables) // 2]
        tables = half if log.has_event(event_id, db, half) else tables[len(half) :]
    return tables[0]
