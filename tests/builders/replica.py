"""A replication projection on real metastores, fed straight from the notification log, without Kafka in between.

The records take the same way as in the daemon (encoded by the relay's code, decoded by the consumer's), so what is left out is
only the topic, which has tests of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.decoding import decode, encode
from handlers.events import TxnCommitted
from handlers.files import AllowedRoots, Copier, CopyPool, open_file_systems
from handlers.metastore import Metastore
from handlers.replication.bootstrap import bootstrap
from handlers.replication.context import Context
from handlers.replication.lastid import LastId
from handlers.replication.observer import Silent
from handlers.replication.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.quarantine import Quarantine
from handlers.replication.tables_seen import TablesSeen
from state.store.memory import MemoryStore
from state.transactions import TxnLedger


if TYPE_CHECKING:
    from handlers.events import Event
    from handlers.structs import NotificationEvent
    from state.positions import Position
    from state.store import Store


@dataclass
class Replica:
    """A policy between two clusters, and the projection that follows it."""

    source: Metastore
    target: Metastore
    policy: Policy
    store: Store
    projection: ReplicationProjection
    context: Context

    def events(self, after: int, *, upto: int | None = None) -> list[Event]:
        """Read the source's log from ``after`` on, as the consumer would hand it in."""
        found: list[Event] = []
        for notification in self.source.next_events(after, -1):
            if upto is not None and (notification.eventId or 0) > upto:
                break
            writes = None
            if notification.eventType == "COMMIT_TXN":
                writes = self.source.write_events(_txn_of(notification))
            records = encode("test", notification, writes, record_bytes_max=512 * 1024)
            found.extend(decode(record.value, record.headers) for record in records)
        return found

    def follow(self) -> Position:
        """Apply everything that the log holds beyond the position."""
        position = self.projection.open()
        events = self.events(position.event_id)
        if events:
            position = self.projection.apply(events)
        self.projection.settle()
        return position


def _txn_of(notification: NotificationEvent) -> int:
    """Return the transaction of a COMMIT_TXN notification."""
    record = encode("test", notification, None, record_bytes_max=1 << 20)[0]
    event = decode(record.value, record.headers)
    assert isinstance(event, TxnCommitted)
    return event.txn_id


def build_replica(
    source_uri: str,
    target_uri: str,
    *,
    db: str,
    roots: list[str],
    store: Store | None = None,
    start: bool = True,
    **policy: object,
) -> Replica:
    """Return a bootstrapped replica of ``db`` as ``db_r``; ``roots`` are the directories files may be read from."""
    source, target = Metastore([source_uri]), Metastore([target_uri])
    chosen = Policy(name=db, source_db=db, target_db=f"{db}_r", **policy)  # type: ignore[arg-type]
    kept = store if store is not None else MemoryStore()
    file_systems = open_file_systems()
    context = Context(
        policy=chosen,
        source=source,
        target=target,
        seen=TablesSeen(target, chosen),
        last_id=LastId(target, chosen),
        ledger=TxnLedger(),
        quarantine=Quarantine(),
        copies=CopyPool(Copier(file_systems, AllowedRoots.of(roots)), workers=4),
        files=file_systems,
        observer=Silent(),
    )
    if start:
        bootstrap(source=source, target=target, policy=chosen, store=kept)
    projection = ReplicationProjection(source_name="test", context=context, store=kept)
    return Replica(source, target, chosen, kept, projection, context)
