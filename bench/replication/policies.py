"""Runs a policy on real metastores in this process: the daemon's projection without Kafka, with counted calls
and its state in SQLite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from bench.replication.counted_metastore import CountedMetastore
from dev.fixtures.notifications import read_events
from dev.stack.endpoints import Endpoints
from handlers.events import Event
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.context import Context
from handlers.replication.loading.bootstrap import begin_bootstrap
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from state.store.sqlite import SqliteStore


BATCH_EVENTS: Final = 500
"""The size of the batches that the consumer passes."""


@dataclass
class LocalPolicy:
    """An open policy, with the number of its calls to source and target."""

    source: CountedMetastore
    target: CountedMetastore
    projection: ReplicationProjection
    target_db: str
    read: int
    """The last event that was read."""
    source_calls: Counter[str] = field(default_factory=Counter)
    target_calls: Counter[str] = field(default_factory=Counter)

    def read_events(self) -> list[Event]:
        """Return the next events of the source's log, in the form in which the consumer delivers them."""
        events = read_events(self.source, self.read)
        self.read = max((event.event_id for event in events), default=self.read)
        return events

    def apply(self, events: Sequence[Event]) -> None:
        """Apply the events in the consumer's batches."""
        for at in range(0, len(events), BATCH_EVENTS):
            self.projection.apply(events[at : at + BATCH_EVENTS])


@contextmanager
def open_policy(endpoints: Endpoints, db: str) -> Iterator[LocalPolicy]:
    """Begin to replicate ``db``, which does not exist yet, after the source's newest event."""
    on_source: Counter[str] = Counter()
    on_target: Counter[str] = Counter()
    source = CountedMetastore.connect(endpoints.source.metastore, on_source)
    target = CountedMetastore.connect(endpoints.target.metastore, on_target)
    policy = Policy(name=db, source_db=db, target_db=f"{db}_replica")
    file_systems = open_file_systems()
    roots = (endpoints.source.warehouse, endpoints.source.external, endpoints.source.cmroot)
    allowed = AllowedRoots.of(Path(root).as_uri() for root in roots)
    with TemporaryDirectory(prefix="tideline-bench-") as directory:
        store = SqliteStore(Path(directory) / "state.db", schema_version=1)
        position = TargetPosition(target, policy)
        copies = CopyPool(Copier(file_systems, allowed, guard=position.require_held))
        context = Context.between(
            source, position, policy, copies=copies, files=file_systems, observer=SilentObserver()
        )
        begin_bootstrap(source=source, target=target, policy=policy, store=store)
        projection = ReplicationProjection(source_name="bench", context=context, store=store)
        read = projection.open().event_id
        try:
            yield LocalPolicy(source, target, projection, policy.target_db, read, on_source, on_target)
        finally:
            projection.close()
