"""Tables without their rows (``metadata_only`` of a policy): definitions, partitions and constraints.

Their rows are in shared storage, are copied by another program, or are not needed on the target. Replay
copies no file, allocates no write id and writes no statistics. Statistics would describe missing rows, and
Hive answers ``count(*)`` from them.
"""

from __future__ import annotations

from dataclasses import replace

from handlers.events import (
    CompactionCommitted,
    Event,
    FilesWritten,
    Inserted,
    PartitionsAltered,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
    WriteIdsAllocated,
)
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.renames import Rename, name_on_target


def select_metadata(event: Event, policy: Policy) -> Event | None:
    """Return the event without the parts about rows, None if nothing is left; unchanged if the table's rows
    are replicated.
    """
    table = name_on_target(event)
    if table is None or not policy.covers(event.db, table) or policy.copies_rows(table):
        return event
    match event:
        case FilesWritten() | WriteIdsAllocated() | Inserted() | StatisticsUpdated() | StatisticsDeleted():
            return None
        case CompactionCommitted():
            return None
        case TableAltered() | PartitionsAltered():
            return None if event.truncate else replace(event, write_id=None)
    return event


def starts_or_stops(move: Rename, policy: Policy) -> bool:
    """Whether a rename starts or stops the replication of a replicated table's rows; the table then needs
    a load.
    """
    (before_db, before), (after_db, after) = move.before, move.after
    if not (policy.covers(before_db, before) and policy.covers(after_db, after)):
        return False
    return policy.copies_rows(before) != policy.copies_rows(after)
