"""Applies one batch of events to the known tables and their followers, in one transaction.

An event of a table that is not followed costs one look-up of its name. The batch skips events of a table that
waits for its load, because the listing will contain their effect; while a table is loaded in pieces, they go
to the staged content. If an event does not fit the known state (a rename of an unknown table, changed
columns), the catalog does not guess, but loads the table again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import structlog

from handlers.catalog.following.column_checks import COLUMNS, ColumnChecks, appends_columns
from handlers.catalog.following.missed_events import MissedEvents
from handlers.catalog.following.partition_events import read_partition_changes
from handlers.catalog.following.ports import Follower, FollowerChange, Observer
from handlers.catalog.following.table_info import (
    AlteredTable,
    CreatedTable,
    ForgottenTable,
    RenamedTable,
    TableChange,
    TableInfo,
    describe_table,
    qualify,
)
from handlers.catalog.following.table_state import FROM_PARTITIONS, FollowedTable, LoadProgress
from handlers.catalog.following.table_states import TableStates
from handlers.decoding.header import UNREADABLE_KIND
from handlers.events import (
    CATALOGS,
    DatabaseDropped,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
from state.errors import BadInput, GapDetected
from state.store import Transaction
from state.timelines.table_properties import APPLIED_EVENT, find_other_changes


log = structlog.get_logger(__name__)
_HANDLED: Final = (
    DatabaseDropped,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
    Undecodable,
)
_KEPT: Final = ("sd", "partitionKeys", "owner", "tableType", "viewOriginalText")
"""Fields of a table that publishing never changes."""
OUT_OF_SCOPE: Final = "out-of-scope"
_IGNORED_KINDS: Final = frozenset(
    {
        *("OPEN_TXN", "ALLOC_WRITE_ID_EVENT", "WRITE", "ACID_WRITE_EVENT", "COMMIT_TXN", "ABORT_TXN"),
        *("COMMIT_COMPACTION_EVENT", "INSERT", "CREATE_DATABASE", "ALTER_DATABASE"),
    }
)
"""Types of events that never change the catalog."""
_ABOUT_KNOWN_TABLES: Final = frozenset(
    {"ADD_PARTITION", "ALTER_PARTITION", "ALTER_PARTITIONS", "DROP_PARTITION", "DROP_TABLE", "DROP_DATABASE"}
)
"""Types of events that give no table a new name."""


class EventBatch:
    """Applies the events of one transaction."""

    def __init__(
        self,
        txn: Transaction,
        states: TableStates,
        pairs: Sequence[tuple[Follower, FollowerChange]],
        observer: Observer,
        missed: MissedEvents | None = None,
        checks: ColumnChecks | None = None,
    ) -> None:
        """``missed`` keeps the events of tables that are being read, ``checks`` the events of tables with
        appended columns.
        """
        self._txn = txn
        self._checks = checks
        self._missed = missed
        self._states = states
        self._followers = [follower for follower, _ in pairs]
        self._changes = [change for _, change in pairs]
        self._staging = [change for follower, change in pairs if follower.loads_in_pieces]
        self._doubts: dict[str, list[FollowerChange]] = {}
        """Tables that followers could not decide about; empty between two events."""
        self._observer = observer

    def apply(self, event: Event) -> None:
        """Apply one event; quarantine the table of an unusable event.

        Raises GapDetected for an unusable event that names no table: it may have changed any of them.
        """
        if isinstance(event, Undecodable) and event.kind in _IGNORED_KINDS:
            self._observer.event_skipped(OUT_OF_SCOPE)
            return
        if not isinstance(event, _HANDLED) or event.catalog not in CATALOGS or event.db is None:
            if isinstance(event, Undecodable) and event.db is None:
                raise _lost(event, event.error) from event.error
            self._observer.event_skipped(OUT_OF_SCOPE)
            return
        try:
            reason = self._dispatch(event, event.db)
        except BadInput as error:
            reason = self._handle_unusable(event, error)
        if self._missed is not None:
            self._missed.note(event)
        if self._doubts:
            self._request_doubtful(event.event_id)
        if reason is None:
            self._observer.event_applied(event.kind)
        else:
            self._observer.event_skipped(reason)

    def _request_doubtful(self, event_id: int) -> None:
        """Request a load of every doubtful table now: a later event of the batch may rename it, and the
        requested load then moves to the new name.
        """
        for name in self._doubts:
            if self._states.get(name) is not None or self._states.is_waiting(name):
                self._states.request_load(self._txn, name, "unsure", event_id)
        self._doubts.clear()

    def _hand(self, follower: FollowerChange, name: str, change: TableChange) -> None:
        """Hand a change to a follower; if the follower cannot decide about it, note its doubt about the
        table ``name``.
        """
        if not follower.apply(change):
            self._doubts.setdefault(name, []).append(follower)

    def _dispatch(self, event: Event, db: str) -> str | None:
        match event:
            case DatabaseDropped():
                return self._drop_database(db, event.event_id)
            case Undecodable():
                raise event.error
            case TableCreated():
                return self._create(event.event_id, describe_table(event.after.value))
            case TableAltered():
                before = event.before.value  # the event's own name is the new one
                return self._alter(event, qualify(before.dbName, before.tableName))
            case TableDropped():
                return self._drop(event.event_id, qualify(db, event.table or ""))
        return self._apply_partition_event(event, qualify(db, event.table or ""))

    def _apply_partition_event(self, event: Event, name: str) -> str | None:
        followed = self._states.get(name)
        progress = self._open_progress(name, event.event_id)
        if progress is not None:
            self._hand_partitions(event, name, progress.columns, self._staging)
            return None
        reason = self._reason_to_skip(name, followed, event.event_id)
        if reason is None and followed is not None:
            self._hand_partitions(event, name, followed.columns, self._changes)
        return reason

    def _hand_partitions(
        self, event: Event, name: str, columns: Sequence[str], followers: Sequence[FollowerChange]
    ) -> None:
        for change in read_partition_changes(event, name, columns, whole=bool(self._staging)):
            for follower in followers:
                self._hand(follower, name, change)

    def _open_progress(self, name: str, event_id: int) -> LoadProgress | None:
        """Return the load progress of a table whose staged content may lack the event."""
        progress = self._states.progress(name)
        return progress if progress is not None and event_id > progress.as_of else None

    def _reason_to_skip(self, name: str, followed: FollowedTable | None, event_id: int) -> str | None:
        """Return the reason for skipping an event about partitions; None if it must be applied."""
        if followed is not None and followed.code is not None:
            return "quarantined"
        if self._states.is_waiting(name):
            return "loading"
        if followed is None:
            return OUT_OF_SCOPE
        return "in-snapshot" if event_id <= followed.as_of else None

    def _create(self, event_id: int, table: TableInfo) -> str | None:
        if self._is_in_listing(table.name, event_id):
            return "in-snapshot"
        accepting = [change for change, _ in self._accepting(table)]
        if not accepting:
            return self._drop(event_id, table.name)
        self._forget(table.name)
        self._states.put(self._txn, table.name, FollowedTable(table.columns, event_id))
        for change in accepting:
            self._hand(change, table.name, CreatedTable(table))
        return None

    def _alter(self, event: TableAltered, name: str) -> str | None:
        table = describe_table(event.after.value)
        if table.name != name:
            return self._rename(event.event_id, name, table)
        followed = self._states.get(name)
        if followed is None and not self._states.is_waiting(name):
            return self._request_if_accepted(table, event.event_id)
        if self._open_progress(name, event.event_id) is not None:
            self._alter_followers(self._staging, table)
        reason = self._reason_to_skip(name, followed, event.event_id)
        if reason is not None or followed is None:
            return reason
        if _is_own(event, followed):
            overwritten = _find_overwritten(event)
            if not overwritten:
                return "own"
            log.error(
                "publishing overwrote a simultaneous change by another writer",
                table=name,
                event_id=event.event_id,
                changed=overwritten,
            )
            self._observer.published("overwrote")
        if not self._accepting(table):
            return self._drop(event.event_id, name)
        if table.columns != followed.columns:
            self._states.request_load(self._txn, name, "changed", event.event_id)
        self._alter_followers(self._changes, table)
        if event.event_id > followed.until and appends_columns(event):
            self._begin_check(table.name, event.event_id)
        return None

    def _begin_check(self, name: str, event_id: int) -> None:
        """Begin to check on a few partitions whether a change of columns reached them, if only followers
        that store partitions are in doubt.
        """
        doubting = self._doubts.get(name)
        if self._checks is None or not doubting or self._states.is_waiting(name):
            return
        if all(change in self._staging for change in doubting):
            del self._doubts[name]
            self._states.request_load(self._txn, name, COLUMNS, event_id)
            self._checks.begin(name)

    def _alter_followers(self, changes: Sequence[FollowerChange], table: TableInfo) -> None:
        accepting = [change for change, _ in self._accepting(table)]
        for change in changes:
            altered = AlteredTable(table) if change in accepting else ForgottenTable(table.name)
            self._hand(change, table.name, altered)

    def _request_if_accepted(self, table: TableInfo, event_id: int) -> str | None:
        if not self._accepting(table):
            return OUT_OF_SCOPE
        self._states.request_load(self._txn, table.name, "changed", event_id)
        return None

    def _rename(self, event_id: int, old: str, table: TableInfo) -> str | None:
        """Move a table to its new name, or request a load if the state of the old name is not sufficient."""
        listed = self._is_in_listing(table.name, event_id)
        followed = None if self._is_in_listing(old, event_id) else self._states.get(old)
        waits_for = self._states.waiting().get(old)
        before = self._states.state(old)
        accepting = self._accepting(table)
        if (
            followed is not None
            and waits_for is None
            and accepting
            and not listed
            and _can_rename(followed, event_id, table)
        ):
            self._forget(table.name)
            changes = [change for change, _ in accepting]
            for change in self._changes:
                renamed = RenamedTable(old, table) if change in changes else ForgottenTable(old)
                self._hand(change, table.name, renamed)
            self._states.forget(self._txn, old)
            self._states.put(self._txn, table.name, replace(followed, published=None))
            return None
        if followed is not None or waits_for is not None:
            self._forget(old)
        if listed:
            return "in-snapshot"
        if accepting:
            reason = waits_for if waits_for in FROM_PARTITIONS else "changed"
            self._states.request_load(self._txn, table.name, reason, event_id)
            self._states.keep_postponed(self._txn, table.name, before.postponed if before else None)
            return None
        return self._drop(event_id, table.name)

    def _drop(self, event_id: int, name: str) -> str | None:
        if self._states.get(name) is None and not self._states.is_waiting(name):
            return OUT_OF_SCOPE
        if self._is_in_listing(name, event_id):
            return "in-snapshot"
        self._forget(name)
        return None

    def _drop_database(self, db: str, event_id: int) -> str | None:
        names = [name for name in self._states.tables_of_db(db) if not self._is_in_listing(name, event_id)]
        for name in names:
            self._forget(name)
        return None if names else OUT_OF_SCOPE

    def _is_in_listing(self, name: str, event_id: int) -> bool:
        """Whether the table's listing contains the event; False before the table was listed."""
        followed = self._states.get(name)
        return followed is not None and not self._states.is_waiting(name) and event_id <= followed.as_of

    def _forget(self, name: str) -> None:
        self._states.forget(self._txn, name)
        for change in self._changes:
            self._hand(change, name, ForgottenTable(name))

    def _accepting(self, table: TableInfo) -> list[tuple[FollowerChange, Follower]]:
        pairs = zip(self._changes, self._followers, strict=True)
        return [(change, follower) for change, follower in pairs if follower.accepts(table)]

    def _handle_unusable(self, event: Event, error: BadInput) -> str:
        """Quarantine the table named by an unusable event; if the table is unknown, request its load."""
        if event.db is None or (event.table is None and event.kind not in _ABOUT_KNOWN_TABLES):
            raise _lost(event, error) from error
        if event.table is None:
            for each in self._states.tables_of_db(event.db):
                self._states.request_load(self._txn, each, "unsure", event.event_id)
            return "loading"
        name = qualify(event.db, event.table)
        followed = self._states.get(name)
        if self._states.is_waiting(name):
            if self._open_progress(name, event.event_id) is not None:
                # The staged content lacks the event.
                self._states.request_load(self._txn, name, "unsure", event.event_id)
            return "loading"
        if followed is None:
            self._states.request_load(self._txn, name, "changed", event.event_id)
            return OUT_OF_SCOPE
        if event.kind == UNREADABLE_KIND and followed.code is None:  # nothing is wrong with the table
            self._states.request_load(self._txn, name, "unsure", event.event_id)
            return "loading"
        if event.event_id > followed.as_of and followed.code is None:
            self._states.quarantine(self._txn, name, error, event.event_id)
            self._observer.table_quarantined(name, error)
        return "quarantined"


def _can_rename(followed: FollowedTable, event_id: int, table: TableInfo) -> bool:
    """Whether the known state of a table is sufficient for its new name."""
    return followed.code is None and event_id > followed.until and followed.columns == table.columns


def _is_own(event: TableAltered, followed: FollowedTable) -> bool:
    """Whether Tideline's publishing caused this event: it sets the event id that the publisher wrote last."""
    if followed.published is None:
        return False
    before, after = event.before.value.parameters or {}, event.after.value.parameters or {}
    return before.get(APPLIED_EVENT) != after.get(APPLIED_EVENT) == followed.published


def _find_overwritten(event: TableAltered) -> list[str]:
    """Return the changes in an event caused by publishing that do not concern timelines: they overwrote
    changes that another writer made after the last comparison.
    """
    before, after = event.before.value, event.after.value
    fields = [name for name in _KEPT if getattr(before, name) != getattr(after, name)]
    return [*fields, *find_other_changes(before.parameters or {}, after.parameters or {})]


def _lost(event: Event, error: BadInput) -> GapDetected:
    """Return the error for an event without content that may concern every table."""
    return GapDetected(
        "an event without a table name cannot be read",
        event_id=event.event_id,
        reason=f"[{error.code}] {error.message}",
    )
