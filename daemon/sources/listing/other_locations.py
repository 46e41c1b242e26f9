"""Finds the partitions of a table whose directory does not follow from their name, for scans.

A scan finds directories below the table's directory by their names. It does not see a partition that was
added with a separate location, or was renamed and kept its directory. Only the metastore knows these, and
reading all partitions of a table is slow. The relay therefore keeps the answer until an event may have
changed it: an added partition, a partition with a new location, or a change of the table.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Final

from daemon.sources.log_connections import NotificationLog
from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, unpack
from handlers.decoding.notifications import build_event
from handlers.events import PartitionsAltered
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.structs.notifications import NotificationEvent
from handlers.structs.objects import Table
from state.errors import BadInput, LimitExceeded
from state.pieces import in_pieces


PARTITIONS_MAX: Final = 20_000
"""If a table has more partitions, the relay ignores those with other locations."""
OTHERS_MAX: Final = 1_000
"""Maximum number of such partitions: each scan lists all of them, because the times of their directories are
unknown.
"""
TABLES_MAX: Final = 1_000
_BATCH: Final = 1_000
_ALTERED: Final = frozenset({"ALTER_PARTITION", "ALTER_PARTITIONS"})
_KINDS: Final = _ALTERED | {"ADD_PARTITION", "ALTER_TABLE", "CREATE_TABLE", "DROP_TABLE"}


class OtherLocations:
    """Reads these partitions once for each table. ``find`` is thread-safe; call ``observe`` and ``clear``
    from one thread only.
    """

    def __init__(self) -> None:
        self._known: dict[str, dict[str, str]] = {}
        self._observed = 0
        self._lock = threading.Lock()

    def find(self, log: NotificationLog, table: Table) -> Mapping[str, str]:
        """Return the locations of these partitions of a table, by name.

        Raises LimitExceeded above ``OTHERS_MAX``, and the errors of the metastore's calls.
        """
        key = f"{table.dbName}.{table.tableName}".lower()
        with self._lock:
            found, observed = self._known.get(key), self._observed
        if found is None:
            found = _read(log, table)
            with self._lock:
                if self._observed == observed and len(self._known) < TABLES_MAX:
                    self._known[key] = found
        if len(found) > OTHERS_MAX:
            raise LimitExceeded(
                "too many partitions have directories with other names", table=key, limit=OTHERS_MAX
            )
        return found

    def observe(self, event: NotificationEvent) -> None:
        """Forget the table of an event that may have changed its partitions' locations."""
        if event.eventType not in _KINDS:
            return
        key = f"{event.dbName}.{event.tableName}".lower()
        with self._lock:
            self._observed += 1
            if key in self._known and (event.eventType not in _ALTERED or _may_move(event)):
                del self._known[key]

    def clear(self) -> None:
        """Forget all tables, because the relay missed events."""
        with self._lock:
            self._observed += 1
            self._known.clear()


def _read(log: NotificationLog, table: Table) -> dict[str, str]:
    db, name = table.dbName, table.tableName
    names = log.partition_names(db, name, limit=PARTITIONS_MAX + 1)
    if len(names) > PARTITIONS_MAX:
        return {}
    keys, root = partition_key_names(table), (table.sd.location or "").rstrip("/")
    found = {}
    for piece in in_pieces(names, _BATCH):
        for partition in log.get_partitions(db, name, piece, with_columns=False):
            own, location = format_partition_name(keys, list(partition.values or [])), partition.sd.location
            if location is not None and location.rstrip("/") != f"{root}/{own}":
                found[own] = location
    return found


def _may_move(event: NotificationEvent) -> bool:
    """Whether an alteration of partitions has renamed one, or changed its location."""
    header = EventHeader(
        event.eventId,
        0,
        1,
        time_s=event.eventTime,
        kind=event.eventType,
        db=event.dbName,
        table=event.tableName,
    )
    try:
        altered = build_event(header, unpack(event.message, event.messageFormat), DEFAULT_LIMITS)
        if isinstance(altered, PartitionsAltered) and altered.before is not None:
            before, after = altered.before.value, altered.after[0].value
            return (before.values, before.sd.location) != (after.values, after.sd.location)
    except BadInput:
        pass
    return True
