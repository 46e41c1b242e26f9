"""Live checks of a source that does not report the files of a transaction: Hive 3.1 and similar builds.

The relay finds these files through the events of the log and by listing directories (reference:
hive-3.1-source.md §1). That works as long as the files exist in the warehouse or in the change manager's
root. Anything that shortens this time, or keeps a write out of the log, causes further loads of tables, and
is a warning.

The newest events of the log show how its writers behave, which no setting of the metastore does. A
transaction that changed a full-ACID table but logged no INSERT comes from a writer with
``hive.metastore.dml.events=false``, or from a vendor's build that has HIVE-19267 without HIVE-25137. One that
logged nothing between allocation and commit comes from the streaming API, or from another engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from daemon.config.document import Problem
from daemon.config.settings.clusters import SourceConfig
from daemon.sources.checks.hive_settings import read_seconds
from handlers.decoding.header import EventHeader
from handlers.decoding.messages import DEFAULT_LIMITS, unpack
from handlers.decoding.notifications import build_event
from handlers.events import (
    Event,
    Inserted,
    PartitionsAdded,
    TableAltered,
    TableCreated,
    TxnAborted,
    TxnCommitted,
    WriteIdsAllocated,
)
from handlers.files.paths import parse_location
from handlers.metastore.calls import V3_1, V4_0, HiveVersion
from handlers.replication.target.objects import is_transactional
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import Database
from state.errors import BadInput, NotFound, Unsupported


SOURCE_FOR: Final = "repl.source.for"
COMPACTOR_CHECK: Final = "hive.compactor.check.interval"
INITIATOR: Final = "hive.compactor.initiator.on"
EVENTS_MAX: Final = 5_000
"""Number of newest events to read."""
RESTART_S: Final = 60.0
PAGE: Final = 500
_EXAMPLES: Final = 3
_WITH_CHECKSUMS: Final = frozenset({"file", "hdfs", "webhdfs", "swebhdfs", "viewfs"})
_KINDS: Final = frozenset(
    [
        "ALLOC_WRITE_ID_EVENT",
        "COMMIT_TXN",
        "ABORT_TXN",
        "INSERT",
        "CREATE_TABLE",
        "ALTER_TABLE",
        "ADD_PARTITION",
        "ALTER_PARTITION",
        "ALTER_PARTITIONS",
    ]
)


class SourceMetastore(Protocol):
    """The calls of a metastore that the checks need."""

    @property
    def hive_version(self) -> HiveVersion:
        """The Hive version of the server."""

    def config_value(self, key: str, default: str = "") -> str:
        """Return a setting of the server."""

    def database_names(self) -> list[str]:
        """Return the names of all databases."""

    def get_database(self, name: str) -> Database:
        """Return a database; raise NotFound."""

    def current_event_id(self) -> int:
        """Return the newest event id of the notification log."""

    def next_events(self, after: int, limit: int) -> Sequence[NotificationEvent]:
        """Return at most ``limit`` events with ids above ``after``."""

    def write_events(self, txn_id: int) -> Sequence[WriteEventInfo]:
        """Return the write events of a transaction; raise Unsupported."""


def check_transactions(
    metastore: SourceMetastore, place: str, source: SourceConfig, replicates: Callable[[str], bool]
) -> Iterator[Problem]:
    """Yield unmet requirements and risks of replicating transactional tables; nothing for a source that
    reports the files of transactions.

    ``replicates`` returns whether a policy replicates a database.
    """
    version = metastore.hive_version
    if version >= V4_0:
        return
    if version < V3_1:
        yield Problem(
            place,
            "Hive version",
            str(version),
            "has transaction ids instead of write ids: transactional tables are not replicated",
            "run a major compaction of each, upgrade the metastore to Hive 3.1 or later, and bootstrap them",
            warning=True,
        )
        return
    if not lists_writes(metastore):
        return
    yield from _marked_databases(metastore, place, filter(replicates, metastore.database_names()))
    yield from _lister(place, source)
    yield from _object_stores(place, source.read_roots)
    yield from _compactor(metastore, place)
    yield from _logged_writes(metastore, place)


def lists_writes(metastore: SourceMetastore) -> bool:
    """Whether a relay finds the files of transactions by listing directories.

    The call for write events is missing before Hive 4, except in later vendor builds of 3.1.
    """
    if not V3_1 <= metastore.hive_version < V4_0:
        return False
    try:
        metastore.write_events(0)
    except Unsupported:
        return True
    return False


def _marked_databases(metastore: SourceMetastore, place: str, databases: Iterable[str]) -> Iterator[Problem]:
    for name in databases:
        try:
            parameters = metastore.get_database(name).parameters or {}
        except NotFound:
            continue
        if not parameters.get(SOURCE_FOR, "").strip():
            yield Problem(
                place,
                f"{SOURCE_FOR} of {name}",
                None,
                "is not set: the change manager keeps no files of this database",
                "a bootstrap sets it; set it now with ALTER DATABASE … SET DBPROPERTIES if it was removed",
                warning=True,
            )


def _lister(place: str, source: SourceConfig) -> Iterator[Problem]:
    if source.relay.enabled and not (source.read_roots and source.relay.list_partitions):
        key = "relay.list_partitions" if source.read_roots else "read_roots"
        yield Problem(
            place,
            key,
            "false" if source.read_roots else None,
            "prevents the relay from listing the files of transactions, which Hive 3.1 does not report",
            "set it; otherwise writes into transactional tables are not replicated",
            warning=True,
        )


def _object_stores(place: str, read_roots: Sequence[str]) -> Iterator[Problem]:
    stores = [root for root in read_roots if parse_location(root).scheme not in _WITH_CHECKSUMS]
    if stores:
        yield Problem(
            place,
            "read_roots",
            stores[0],
            "has no checksums, so files in the change manager's root cannot be identified",
            "keep the relay running: Tideline loads tables again whose files are compacted before the relay "
            "lists them",
            warning=True,
        )


def _compactor(metastore: SourceMetastore, place: str) -> Iterator[Problem]:
    """Yield a warning if the compactor begins sooner than a relay can restart."""
    interval_s = read_seconds(metastore, COMPACTOR_CHECK)
    if metastore.config_value(INITIATOR).lower() == "true" and 0 < interval_s < RESTART_S:
        yield Problem(
            place,
            COMPACTOR_CHECK,
            f"{interval_s:g} s",
            "is shorter than a possible restart of the relay",
            "make it longer; otherwise Tideline loads tables again whose files are compacted in the meantime",
            warning=True,
        )


def _logged_writes(metastore: SourceMetastore, place: str) -> Iterator[Problem]:
    found = find_unreported_writes(_read_newest(metastore))
    if found.without_insert:
        yield Problem(
            place,
            "hive.metastore.dml.events",
            None,
            f"{found.without_insert} of the {found.commits} newest commits changed a table but logged no "
            f"INSERT, among them {', '.join(found.tables_without_insert)}",
            "set it to true for every writer; with a vendor's build that never logs INSERT, tables are "
            "loaded again if their files are removed before the relay lists them",
            warning=True,
        )
    if found.unnamed:
        yield Problem(
            place,
            "notification log",
            None,
            f"{found.unnamed} of the {found.commits} newest commits logged no event of their table, among "
            f"them {', '.join(found.unnamed_tables)}",
            "the writer is the streaming API, HCatalog or another engine, or wrote no rows; add partitioned "
            "tables of such writers to relay.scan_tables; see 'From Hive 3 to Hive 4' in the documentation",
            warning=True,
        )


@dataclass(slots=True)
class UnreportedWrites:
    """Counts of commits, and of those whose writes no event names, with examples of their tables."""

    commits: int = 0
    """Commits with write ids."""
    without_insert: int = 0
    tables_without_insert: list[str] = field(default_factory=list)
    unnamed: int = 0
    unnamed_tables: list[str] = field(default_factory=list)


def find_unreported_writes(events: Iterable[Event]) -> UnreportedWrites:
    """Count the commits with a table that no event names, or that only events about metadata name.

    An event between allocation and commit counts for every transaction that has a write id of its table.
    """
    found = UnreportedWrites()
    opened: dict[int, dict[str, set[str]]] = {}
    for event in events:
        table = f"{event.db}.{event.table}"
        match event:
            case WriteIdsAllocated():
                for txn_id, _ in event.pairs:
                    opened.setdefault(txn_id, {})[table] = set()
            case TxnAborted():
                opened.pop(event.txn_id, None)
            case TxnCommitted():
                _count(opened.pop(event.txn_id, {}), found)
            case _:
                for tables in opened.values():
                    if table in tables:
                        tables[table].add(_describe(event))
    return found


def _describe(event: Event) -> str:
    """Return whether an event reports rows or only metadata of its table. A conversion has no INSERT."""
    match event:
        case Inserted() | PartitionsAdded() | TableCreated():
            return "rows"
        case TableAltered():
            converts = is_transactional(event.before.value) != is_transactional(event.after.value)
            return "rows" if converts else "metadata"
    return "metadata"


def _count(tables: dict[str, set[str]], found: UnreportedWrites) -> None:
    if not tables:
        return
    found.commits += 1
    unnamed = [table for table, marks in tables.items() if not marks]
    silent = [table for table, marks in tables.items() if marks == {"metadata"}]
    if unnamed:
        found.unnamed += 1
        _add_examples(found.unnamed_tables, unnamed)
    if silent:
        found.without_insert += 1
        _add_examples(found.tables_without_insert, silent)


def _add_examples(examples: list[str], tables: Iterable[str]) -> None:
    for table in tables:
        if table not in examples and len(examples) < _EXAMPLES:
            examples.append(table)


def _read_newest(metastore: SourceMetastore) -> Iterator[Event]:
    """Yield the newest events of the types that matter, without unreadable ones."""
    newest = metastore.current_event_id()
    after = max(0, newest - EVENTS_MAX)
    while after < newest and (page := metastore.next_events(after, PAGE)):
        for each in page:
            event = _decode(each) if each.eventType in _KINDS else None
            if event is not None:
                yield event
        after = page[-1].eventId


def _decode(notification: NotificationEvent) -> Event | None:
    db, table = notification.dbName, notification.tableName
    header = EventHeader(
        notification.eventId,
        0,
        1,
        time_s=notification.eventTime,
        kind=notification.eventType,
        db=None if db is None else db.lower(),
        table=None if table is None or table.isspace() else table.lower(),
    )
    try:
        return build_event(header, unpack(notification.message, notification.messageFormat), DEFAULT_LIMITS)
    except BadInput:
        return None
