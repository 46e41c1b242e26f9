"""Compactions of a replica's tables: requests on the target, their state there, and the compactor's remaining
work.

Replay skips compactions of the source, because their files would be copied a second time. The target compacts
on its own: its initiator works on replicated tables as on any others, and an operator may request more.
Readers see the same rows before, during and after, since Hive names the result after its own transaction.
They do not affect replay: a compaction ends below the lowest open write id.

Hive keeps a record of every compaction for days, so this module reads only the states that matter, each by a
separate call with a limit, for all databases of a target at once. A failed compaction counts until a later
one of the same table or partition is queued. Hive keeps its record longer than that, so this module reads
later compactions as well, for at most ``CHECKED_MAX`` objects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

from handlers.replication.target.objects import is_transactional
from handlers.structs.transactions import CompactionType
from state.errors import InvalidRequest


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

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
    """Hive's word: ``initiated``, ``working``, ``ready for cleaning``, ``succeeded``, ``failed``,
    ``did not initiate`` or ``refused``."""
    queued_s: float | None
    """Unix time, as the other times."""
    started_s: float | None
    ended_s: float | None
    message: str | None


def request_compactions(
    target: Metastore, policy: Policy, table: str, partitions: Sequence[str] = (), kind: Kind = "major"
) -> list[RequestedCompaction]:
    """Queue a compaction of a table, or of its named partitions (all of them if there are no names); returns
    at once.

    Raises NotFound for an unknown table, InvalidRequest for one without transactions, or for partitions that
    it does not have.
    """
    db = policy.target_db
    present = target.get_table(db, table)
    if not is_transactional(present):
        raise InvalidRequest("only transactional tables are compacted", table=f"{db}.{table}")
    names: Sequence[str | None] = [None]
    if present.partitionKeys:
        existing = target.partition_names(db, table)
        names = partitions or existing
        partitions = [name for name in partitions if name not in set(existing)]
    if partitions:
        raise InvalidRequest(
            "the table has no such partitions", table=f"{db}.{table}", partitions=partitions[:10]
        )
    requested: list[RequestedCompaction] = []
    for name in names:
        answer = target.compact(db, table, partition_name=name, kind=_KINDS[kind])
        requested.append(
            RequestedCompaction(table, name, kind, answer.accepted, answer.state, answer.errormessage)
        )
    return requested


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
    """Return Unix time; Hive writes 0 for a step that has not happened yet."""
    return milliseconds / 1000 if milliseconds else None


FAILED: Final = "failed"
DID_NOT_INITIATE: Final = "did not initiate"
QUEUED: Final = "initiated"
STATES: Final[Mapping[str, str]] = {
    FAILED: "f",
    DID_NOT_INITIATE: "a",
    "working": "w",
    QUEUED: "i",
    "ready for cleaning": "r",
}
"""The states to read, with Hive's letters; those that need attention first."""
SUCCEEDED: Final = "succeeded"
UNENDED: Final = frozenset({QUEUED, "working", "ready for cleaning"})
_LATER: Final = UNENDED | {SUCCEEDED}
READ_MAX: Final = 10_000
"""Compactions of one state to read; more do not count."""
CHECKED_MAX: Final = 100
"""Failed tables and partitions whose later compactions are read; further ones count as failed."""

Object = tuple[str, str]
"""A table and its partition, or a table and an empty text."""


@dataclass(frozen=True, slots=True)
class CompactionBacklog:
    """The compactions of one database that wait, run or failed."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """The number in each state. A table or partition with several failures counts once."""
    oldest_queued_s: float | None = None
    """Unix time since which the oldest queued compaction waits."""
    listed: tuple[CompactionState, ...] = ()
    """Some of these compactions, failed ones first."""


def read_backlogs(
    target: Metastore, dbs: Collection[str], *, listed_max: int
) -> dict[str, CompactionBacklog]:
    """Return the compactions of each of the databases; lists at most ``listed_max`` of one. Raises the errors
    of the metastore.
    """
    by_state = {state: _read(target, dbs, state) for state in STATES}
    return {
        db: _build_backlog(target, db, {state: by_db[db] for state, by_db in by_state.items()}, listed_max)
        for db in dbs
    }


def read_succeeded(target: Metastore, db: str, objects: Collection[Object]) -> list[CompactionState]:
    """Return the last compaction of each of these tables and partitions, if it has succeeded. Raises the
    errors of the metastore.
    """
    newest: dict[Object, ShowCompactResponseElement] = {}
    for table in dict.fromkeys(table for table, _ in objects):
        for each in sorted(target.show_compactions(db, table), key=lambda each: each.id or 0):
            newest[_object(each)] = each
    found = (newest[key] for key in objects if key in newest)
    return [describe_compaction(each) for each in found if each.state == SUCCEEDED]


def _build_backlog(
    target: Metastore, db: str, by_state: dict[str, list[ShowCompactResponseElement]], listed_max: int
) -> CompactionBacklog:
    for state in (FAILED, DID_NOT_INITIATE):
        by_state[state] = _drop_superseded(by_state[state], target, db)
    queued = [each.enqueueTime for each in by_state[QUEUED] if each.enqueueTime]
    return CompactionBacklog(
        {state: len(each) for state, each in by_state.items()},
        min(queued) / 1000 if queued else None,
        tuple(
            describe_compaction(each)
            for each in islice((each for some in by_state.values() for each in some), listed_max)
        ),
    )


def _read(target: Metastore, dbs: Collection[str], state: str) -> dict[str, list[ShowCompactResponseElement]]:
    """Return the compactions in one state by database, the newest first.

    One call reads the compactions of all databases. If the answer is full, one call for each database
    follows, because a single database may have filled it.
    """
    answered = target.show_compactions(state=STATES[state], limit=READ_MAX)
    if len(answered) >= READ_MAX:
        answered = [
            each for db in dbs for each in target.show_compactions(db, state=STATES[state], limit=READ_MAX)
        ]
    found: dict[str, list[ShowCompactResponseElement]] = {db: [] for db in dbs}
    for each in sorted(answered, key=lambda each: each.id or 0, reverse=True):
        if each.dbname in found and each.state == state:
            found[each.dbname].append(each)
    return found


def _drop_superseded(
    failed: Iterable[ShowCompactResponseElement], target: Metastore, db: str
) -> list[ShowCompactResponseElement]:
    """Return the newest failure of each table or partition, unless a later compaction of it waits, runs or
    has succeeded.
    """
    newest: dict[Object, ShowCompactResponseElement] = {}
    for each in failed:
        newest.setdefault(_object(each), each)
    checked = list(islice(newest, CHECKED_MAX))
    later: dict[Object, int] = {}
    for table in dict.fromkeys(table for table, _ in checked):
        for each in target.show_compactions(db, table):
            if each.state in _LATER:
                later[_object(each)] = max(later.get(_object(each), 0), each.id or 0)
    return [each for key, each in newest.items() if later.get(key, 0) < (each.id or 0)]


def _object(each: ShowCompactResponseElement) -> Object:
    return each.tablename, each.partitionname or ""
