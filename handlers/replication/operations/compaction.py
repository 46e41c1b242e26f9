"""Compactions of a replica's tables: requested on the target, and their state there.

Compactions of the source are not replicated, because their files would be copied a second time. The target compacts on its own: its
initiator works on replicated tables as on any others, and an operator may request more. Readers see the same rows before, during and
after, since Hive names the result after its own transaction. Replay is not affected: a compaction ends below the lowest open write id.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from handlers.replication.target.objects import is_transactional
from handlers.structs.transactions import CompactionType
from state.errors import InvalidRequest


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.metastore.client import Metastore
    from handlers.replication.policy.policy import Policy
    from handlers.structs.transactions import ShowCompactResponseElement


Kind = Literal["major", "minor"]
_KINDS: Final = {"major": CompactionType.MAJOR, "minor": CompactionType.MINOR}
_NAMES: Final = {number: name for name, number in _KINDS.items()}


@dataclass(frozen=True, slots=True)
class RequestedCompaction:
    """The answer to one request."""

    table: str
    partition: str | None
    kind: str
    accepted: bool
    """False if a compaction is queued or running already, or if there is nothing to compact."""
    state: str
    """Hive's word, such as ``initiated`` or ``refused``."""
    message: str | None


@dataclass(frozen=True, slots=True)
class CompactionState:
    """One compaction of the target database, as Hive lists it."""

    table: str
    partition: str | None
    kind: str
    state: str
    """Hive's word: ``initiated``, ``working``, ``ready for cleaning``, ``succeeded``, ``failed``, ``did not initiate`` or ``refused``."""
    queued_s: float | None
    """Unix time, as the other times."""
    started_s: float | None
    ended_s: float | None
    message: str | None


def request_compactions(
    target: Metastore, policy: Policy, table: str, partitions: Sequence[str] = (), kind: Kind = "major"
) -> list[RequestedCompaction]:
    """Queue a compaction of a table, or of its named partitions (all of them if none is named); returns at once.

    Raises NotFound for an unknown table, InvalidRequest for one without transactions, or for partitions that it does not have.
    """
    db = policy.target_db
    present = target.get_table(db, table)
    if not is_transactional(present):
        raise InvalidRequest("only transactional tables are compacted", table=f"{db}.{table}")
    names: Sequence[str | None] = [None]
    if present.partitionKeys:
        known = target.partition_names(db, table)
        names = partitions or known
        partitions = [name for name in partitions if name not in set(known)]
    if partitions:
        raise InvalidRequest(
            "the table has no such partitions", table=f"{db}.{table}", partitions=partitions[:10]
        )
    return [_request(target, db, table, name, kind) for name in names]


def _request(
    target: Metastore, db: str, table: str, partition: str | None, kind: Kind
) -> RequestedCompaction:
    answer = target.compact(db, table, partition_name=partition, kind=_KINDS[kind])
    return RequestedCompaction(table, partition, kind, answer.accepted, answer.state, answer.errormessage)


def list_compactions(target: Metastore, policy: Policy, table: str | None = None) -> list[CompactionState]:
    """Return the compactions of the target database, or of one table, the newest first."""
    listed = [
        each
        for each in target.show_compactions(policy.target_db, table)
        if each.dbname == policy.target_db and table in {None, each.tablename}
    ]
    listed.sort(key=lambda each: each.id or 0, reverse=True)
    return [describe_compaction(each) for each in listed]


def describe_compaction(each: ShowCompactResponseElement) -> CompactionState:
    """Return a compaction as Hive describes it."""
    return CompactionState(
        each.tablename,
        each.partitionname or None,
        _NAMES.get(CompactionType(each.type), str(each.type)),
        each.state,
        _seconds(each.enqueueTime),
        _seconds(each.start),
        _seconds(each.endTime),
        each.errorMessage or None,
    )


def _seconds(milliseconds: int | None) -> float | None:
    """Return Unix time; Hive writes 0 for a time that has not come."""
    return milliseconds / 1000 if milliseconds else None
