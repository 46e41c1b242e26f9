"""A database of a Hive 3.1 source, and replicas of it that apply events as the relay publishes them."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Final

from daemon.sources.outbox import Outbox
from daemon.sources.outgoing_events import OutboxSettings
from daemon.sources.unlogged_partitions import UnloggedPartitions
from dev.stack.cluster import HiveCluster
from dev.stack.endpoints import ClusterEndpoints
from dev.stack.hive.sql_session import Session
from handlers.decoding.decoder import decode
from handlers.decoding.records.record_writer import Record
from handlers.events import Event
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.client import Metastore
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.target.objects import is_insert_only
from state.event_log.positions import Position
from state.store import Store
from tests.builders.components.hive_3 import read_row_ids, read_rows
from tests.builders.daemon.killed_stack import as_uri
from tests.builders.replication.replica import Replica, build_replica
from tests.builders.replication.small_workload import create_source


ACID: Final = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY: Final = (
    "stored as orc tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
)
_OF_WRITE: Final = re.compile(r"/(?:base|delta)_(\d+)")
PLAIN: Final = "stored as orc tblproperties ('transactional'='false')"


@dataclass
class Hive3Source:
    """An empty database of Hive 3.1, and the target for its replica."""

    cluster: HiveCluster
    target: ClusterEndpoints
    metastore: Metastore
    sql: Session
    db: str
    start: int
    """The event before the database was created."""
    records: list[Record] = field(default_factory=list)
    """What was relayed."""

    @property
    def roots(self) -> list[str]:
        places = self.cluster.endpoints()
        return [as_uri(place) for place in (places.warehouse, places.external, places.cmroot)]

    def location(self, table: str) -> Path:
        return self.cluster.metastore.layout.warehouse / f"{self.db}.db" / table

    def run(self, *statements: str, relay: bool = False) -> None:
        """Run statements with {db} for the database; with ``relay``, each is relayed at once."""
        for statement in statements:
            self.sql.run(statement.format(db=self.db))
            if relay:
                self.relay()

    def relay(self) -> None:
        """Relay everything that was not relayed yet."""
        last = self.records[-1] if self.records else None
        after = self.start if last is None else decode(last.value, last.headers).event_id
        with closing(self._outbox()) as outbox:
            self.records += outbox.records(after + 1, self.metastore.current_event_id())

    def load(self) -> Replica:
        """Return a replica that was bootstrapped."""
        replica = self._replica(start=True)
        replica.follow()
        return replica

    def replay(self) -> Replica:
        """Return a replica that has applied everything since the beginning, as the relay publishes it."""
        self.relay()
        live = self.open_replica()
        live.follow()
        return live.replica

    def open_replica(self, *, store: Store | None = None, again: bool = False) -> RelayedReplica:
        """Return a replica that has applied nothing yet,
        or one that continues with the ``store`` of one that was killed.
        """
        return RelayedReplica(self, self._replica(start=False if again else self.start, store=store))

    def begin(self, bootstrap: BootstrapOptions) -> Replica:
        """Return a replica whose bootstrap begins when it is opened."""
        return self._replica(start=True, bootstrap=bootstrap)

    def events(self, after: int, upto: int) -> list[Event]:
        """Return events that were relayed."""
        events = (decode(record.value, record.headers) for record in self.records)
        return [each for each in events if after < each.event_id <= upto]

    def _replica(
        self,
        *,
        start: bool | int,
        store: Store | None = None,
        bootstrap: BootstrapOptions | None = None,
    ) -> Replica:
        return build_replica(
            self.cluster.metastore.uri,
            self.target.metastore,
            db=self.db,
            roots=self.roots,
            start=start,
            store=store,
            bootstrap=bootstrap,
        )

    def _outbox(self) -> Outbox:
        unlogged = UnloggedPartitions({self.db}, open_file_systems(), AllowedRoots.of(self.roots))
        unlogged.start_after(self.start)
        return Outbox(
            self.metastore.clone, OutboxSettings(source="lake"), hard_bytes_max=1 << 20, unlogged=unlogged
        )

    def assert_equal(self, replica: Replica, target_sql: Session, *tables: str) -> None:
        """Compare rows, row ids and highest write ids, and require that nothing is quarantined."""
        with closing(replica.projection):
            self.assert_equal_now(replica, target_sql, *tables)

    def assert_equal_now(self, replica: Replica, target_sql: Session, *tables: str) -> None:
        """Compare as ``assert_equal``, and leave the replica open."""
        assert replica.quarantined() == {}
        ours = Side(self.metastore, self.sql, self.db)
        assert_equal_tables(ours, Side(replica.target, target_sql, replica.policy.target_db), tables)


@dataclass(frozen=True)
class Side:
    """A database of the source or the target, and its connections."""

    metastore: Metastore
    sql: Session
    db: str


def assert_equal_tables(
    source: Side, target: Side, tables: Iterable[str], committed: Mapping[str, Container[int]] | None = None
) -> None:
    """Compare rows, row ids and highest write ids; only rows of ``committed`` write ids of each table."""
    for table in tables:
        ours, theirs = f"{source.db}.{table}", f"{target.db}.{table}"
        insert_only = is_insert_only(source.metastore.get_table(source.db, table))
        read = read_rows if insert_only else read_row_ids
        if committed is not None:
            read = partial(_read_committed, insert_only=insert_only, committed=committed[table])
        at_target, at_source = read(target.sql, theirs), read(source.sql, ours)
        assert at_target == at_source, f"{table}: {at_target} at the target, {at_source} at the source"
        # not the high-water marks of readers: Hive 4 may cut them (ValidWriteIds.may_be_cut)
        highest = source.metastore.highest_write_id(source.db, table)
        found = target.metastore.highest_write_id(target.db, table)
        assert found == highest, f"{table}: write id {found} at the target, {highest} at the source"


def _read_committed(
    sql: Session, table: str, *, insert_only: bool, committed: Container[int]
) -> list[tuple[str, ...]]:
    """Return the rows of committed write ids, with their row ids if they have some, sorted."""
    if insert_only:
        rows = sql.rows(f"select input__file__name, * from {table}")
        found = ((int(_OF_WRITE.findall(file)[-1]), tuple(row)) for file, *row in rows)
    else:
        found = ((json.loads(row[0])["writeid"], row) for row in read_row_ids(sql, table))
    return sorted(row for write_id, row in found if write_id in committed)


@dataclass
class RelayedReplica:
    """A replica that applies what was relayed."""

    source: Hive3Source
    replica: Replica
    position: Position = field(init=False)
    """What was applied."""

    def __post_init__(self) -> None:
        self.position = self.replica.projection.open()

    def follow(self) -> None:
        """Apply the records that were relayed since."""
        events = [decode(record.value, record.headers) for record in self.source.records]
        begin = (self.position.event_id, self.position.part)
        events = [each for each in events if (each.event_id, each.part) > begin]
        if events:
            self.position = Position(events[-1].event_id)
        self.replica.projection.apply(events)
        self.replica.projection.settle()


@contextmanager
def open_hive_3_source(
    cluster: HiveCluster, target: ClusterEndpoints, database: str
) -> Iterator[Hive3Source]:
    """Create the database, and return it for the duration of the block."""
    with Metastore([cluster.metastore.uri]) as metastore, cluster.sql() as sql:
        start = metastore.current_event_id()
        create_source(sql, database)
        yield Hive3Source(cluster, target, metastore, sql, database, start)
