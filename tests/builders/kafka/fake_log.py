"""Notification logs in memory, and the heartbeat of a loop, for tests of the relay and the consumer."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterable, Sequence

from handlers.metastore.calls import Receiver
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from handlers.structs.objects import Partition, Table
from handlers.structs.transactions import GetOpenTxnsInfoResponse, TxnInfo, TxnState
from state.errors import LimitExceeded, NotFound, TidelineError


def ddl(event_id: int, *, kind: str = "CREATE_DATABASE", padding: int = 0) -> NotificationEvent:
    """Return a small valid event."""
    message = {"db": f"db{event_id}", "timestamp": 1_700_000_000, "padding": "x" * padding}
    return event(event_id, kind, message, db=f"db{event_id}")


def commit(event_id: int, txn_id: int, write_ids: Iterable[int] | None = (1,)) -> NotificationEvent:
    write_ids = None if write_ids is None else list(write_ids)
    databases = None if write_ids is None else ["sales"] * len(write_ids)
    return event(event_id, "COMMIT_TXN", {"txnid": txn_id, "writeIds": write_ids, "databases": databases})


def event(
    event_id: int,
    kind: str,
    message: dict[str, object] | str,
    *,
    db: str | None = None,
    table: str | None = None,
) -> NotificationEvent:
    return NotificationEvent(
        eventId=event_id,
        eventTime=1_700_000_000 + event_id,
        eventType=kind,
        dbName=db,
        tableName=table,
        message=message if isinstance(message, str) else json.dumps(message),
        messageFormat="json-0.2",
        catName="hive",
    )


def write(table: str, write_id: int = 1, *, files: Iterable[str] = ("hdfs://s/w/f#1#cm#",)) -> WriteEventInfo:
    return WriteEventInfo(
        writeId=write_id, database="sales", table=table, files="]".join(files), partition=None, tableObj="{}"
    )


class ListedLog:
    """A notification log with the events that a test adds; all its connections share it, as with a real
    one."""

    def __init__(self, events: Iterable[NotificationEvent] = ()) -> None:
        self.events = {event.eventId: event for event in events}
        self.writes: dict[int, list[WriteEventInfo]] = {}
        self.tables: dict[tuple[str, str], Table] = {}
        self.partitions: dict[str, Partition] = {}
        self.current: int | None = None
        self.open_txn_ids: set[int] = set()
        self.asked_for_writes: list[int] = []
        self.reads = 0
        self.connections = 0
        self.closed = 0
        self.answer_bytes_max = 1 << 30
        self.failing: Callable[[str], TidelineError | None] = lambda _call: None
        self._lock = threading.Lock()

    def add(self, *events: NotificationEvent) -> None:
        self.events.update({event.eventId: event for event in events})

    def clean(self, up_to: int) -> None:
        """Remove old events as the metastore's cleaner does; the sequence continues."""
        self.current = self.current_event_id()
        self.events = {event_id: event for event_id, event in self.events.items() if event_id > up_to}

    def connect(self) -> ListedLog:
        self._fail("connect")
        with self._lock:
            self.connections += 1
        return self

    def close(self) -> None:
        with self._lock:
            self.closed += 1

    def current_event_id(self) -> int:
        self._fail("current_event_id")
        return max(self.current or 0, *self.events, 0)

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        self._fail("open_txns_info")
        opened = [
            TxnInfo(id=txn_id, state=TxnState.OPEN, user="u", hostname="h")
            for txn_id in sorted(self.open_txn_ids)
        ]
        return GetOpenTxnsInfoResponse(
            txn_high_water_mark=max(self.open_txn_ids, default=0), open_txns=opened
        )

    def next_events(self, after: int, limit: int) -> list[NotificationEvent]:
        self._fail("next_events")
        self.reads += 1
        found = [self.events[event_id] for event_id in sorted(self.events) if event_id > after][:limit]
        if sum(len(event.message) for event in found) > self.answer_bytes_max:
            raise LimitExceeded("the metastore's answer is too large")
        return found

    def receive_write_events(
        self, txn_id: int, receiver: Receiver, *, db: str | None = None, table: str | None = None
    ) -> None:
        receiver.restart()
        self._fail("write_events")
        with self._lock:
            self.asked_for_writes.append(txn_id)
        found = [
            write
            for write in self.writes.get(txn_id, [])
            if db in {None, write.database} and table in {None, write.table}
        ]
        if sum(len(write.files) for write in found) > self.answer_bytes_max:
            raise LimitExceeded("the metastore's answer is too large")
        for write in found:
            receiver.receive(write)

    def database_names(self) -> list[str]:
        return sorted({event.dbName for event in self.events.values() if event.dbName})

    def table_names(self, db: str) -> list[str]:
        return sorted(
            {event.tableName for event in self.events.values() if event.dbName == db and event.tableName}
        )

    def get_table(self, db: str, name: str) -> Table:
        self._fail("get_table")
        if (db, name) not in self.tables:
            raise NotFound("no such table", table=f"{db}.{name}")
        return self.tables[db, name]

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        del db, table, with_columns
        return [self.partitions[name] for name in names if name in self.partitions]

    def partition_names(self, db: str, table: str, *, limit: int | None = None) -> list[str]:
        self._fail("partition_names")
        names = sorted(
            name for name, each in self.partitions.items() if (each.dbName, each.tableName) == (db, table)
        )
        return names[:limit]

    def table_events(
        self, after: int, db: str, table: str, kinds: Sequence[str], limit: int
    ) -> list[NotificationEvent]:
        found = [each for each in self.next_events(after, 1 << 30) if each.eventType in kinds]
        return [each for each in found if (each.dbName, each.tableName) == (db, table)][:limit]

    def has_event(self, event_id: int, db: str, tables: Sequence[str] = ()) -> bool:
        event = self.events[event_id]
        return event.dbName == db and (not tables or event.tableName in tables)

    def _fail(self, call: str) -> None:
        error = self.failing(call)
        if error is not None:
            raise error


class Line:
    """A heartbeat that counts its calls, and stops the loop when a condition holds."""

    def __init__(self, until: Callable[[], bool] | None = None) -> None:
        self.stopping = threading.Event()
        self.until = until
        self.beats = 0
        self.progresses = 0
        self.followed = 0

    def beat(self) -> None:
        self.beats += 1
        if self.until is not None and self.until():
            self.stopping.set()

    def wake(self) -> None:
        """Do nothing: the loop does not rest long."""

    def answered(self) -> None:
        self.beat()

    def following(self) -> None:
        self.followed += 1

    def progress(self) -> None:
        self.progresses += 1
        self.beat()
