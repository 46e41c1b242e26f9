"""A target metastore in memory that fails on request, for errors that a real one does not produce on
demand."""

from __future__ import annotations

import hashlib
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.metastore.calls import V4_2
from handlers.replication.context import Context
from handlers.replication.dispatch import Dispatcher
from handlers.replication.observer import SilentObserver
from handlers.replication.policy.policy import Policy
from handlers.replication.projection import ReplicationProjection
from handlers.replication.tables.policy_tables import PolicyTables
from handlers.replication.tables.quarantine import Quarantine
from handlers.replication.target.table_cache import TableCache
from handlers.replication.target.target_position import TargetPosition
from handlers.replication.transactions.target_write_ids import CommitProofs
from handlers.structs.notifications import WriteEventInfo
from handlers.structs.objects import Database, Partition, Table
from handlers.structs.transactions import GetOpenTxnsInfoResponse, TxnInfo, TxnState
from state.errors import AlreadyExists, NotFound, TidelineError
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store
from state.store.memory import MemoryStore
from state.transactions.valid_write_ids import ValidWriteIds


class Killed(BaseException):
    """The process was killed: nothing catches this, and code that runs while it propagates must have no
    effect."""


class Clock:
    """A clock that tests move."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class FakeTarget:
    """The calls that replay makes. ``calls`` has their names in order;
    ``answers`` overrides the next results of a call.

    ``dies_at`` lets the caller's process die at the n-th step from then on (from 1), before or after its
    effect.
    """

    def __init__(self, warehouse: Path) -> None:
        self.warehouse = warehouse
        self.databases: dict[str, Database] = {}
        self.tables: dict[str, Table] = {}
        self.partitions: dict[str, dict[str, Partition]] = {}
        """The partitions of each table with one partition column, by name."""
        self.calls: list[str] = []
        self.commits: list[tuple[int, list[WriteEventInfo]]] = []
        self.allocations: list[tuple[int, int, bool]] = []
        self.answers: dict[str, list[Any]] = defaultdict(list)
        self.invalid: dict[str, tuple[int, ...]] = {}
        """Further write ids that the target reports as open, by table."""
        self.logged: dict[int, tuple[str | None, str | None]] = {}
        """The source's log: database and table of each event."""
        self.newest_event_id = 0
        """The source's newest event."""
        self.aborted: set[int] = set()
        """Source transactions that were aborted."""
        self.dies_at: tuple[int, bool] | None = None
        self.dead = False
        self._steps = 0
        self.damaged: list[str] = []
        """Tables whose write ids a real target would have forgotten or mixed up, because several were
        allocated by one wrong call."""
        self.reopened: list[int] = []
        """Source transactions that were opened again after their end, which damages a real target."""
        self._ended: set[int] = set()
        self._txns: dict[int, int] = {}
        self._opened = 0
        self._write_ids: dict[tuple[str, int], int] = {}

    def fails(self, call: str, error: TidelineError, times: int = 1) -> None:
        """Make the next calls fail."""
        self.answers[call] += [error] * times

    @property
    def open_txns(self) -> list[int]:
        """The source ids of the transactions that are open on the target."""
        return sorted(self._txns)

    @property
    def write_ids(self) -> dict[str, int]:
        """The highest write id of each table."""
        highest: dict[str, int] = {}
        for (table, _), write_id in self._write_ids.items():
            highest[table] = max(write_id, highest.get(table, 0))
        return highest

    def killed_at(self, step: tuple[int, bool] | None) -> None:
        """Start a new process that will be killed at ``step``."""
        self.dead, self._steps, self.dies_at = False, 0, step

    def step(self, effect: Callable[[], Any] = lambda: None) -> Any:
        """Run ``effect``, before or after which the process may be killed."""
        if self.dead:
            raise Killed
        self._steps += 1
        dies, after = self.dies_at or (0, False)
        if dies == self._steps and not after:
            self.dead = True
            raise Killed
        result = effect()
        if dies == self._steps:
            self.dead = True
            raise Killed
        return result

    def _called(self, name: str, otherwise: Callable[[], Any] = lambda: None) -> Any:
        self.calls.append(name)
        if not self.answers[name]:
            return self.step(otherwise)
        answer = self.answers[name].pop(0)
        if isinstance(answer, TidelineError):
            raise answer
        return answer

    def clone(self, *, guard: Callable[[], None] = lambda: None) -> FakeClient:
        """Return a client with a guard."""
        return FakeClient(self, guard)

    def metastore_uuid(self) -> str:
        return "a-source"

    def newest_txn_id(self) -> int:
        return 100

    def get_database(self, name: str) -> Database:
        if name not in self.databases:
            raise NotFound("no such database", name=name)
        return self.databases[name].copy()

    def create_database(self, database: Database) -> None:
        if database.name in self.databases:
            raise AlreadyExists("there is one", name=database.name)
        self._called("create_database", lambda: self.databases.update({database.name: database}))

    def alter_database(self, name: str, database: Database) -> None:
        self._called("alter_database", lambda: self.databases.update({name: database}))

    def function_names(self, _db: str) -> list[str]:
        return []

    def table_names(self, _db: str) -> list[str]:
        return list(self.tables)

    def get_table(self, _db: str, name: str) -> Table:
        if name not in self.tables:
            raise NotFound("no such table", name=name)
        return self.tables[name].copy()

    def get_tables(self, _db: str, names: Sequence[str]) -> list[Table]:
        return [self.tables[name].copy() for name in names if name in self.tables]

    def create_table(self, table: Table, **_options: Any) -> None:
        def create() -> None:
            if table.tableName in self.tables:
                raise AlreadyExists("there is one", name=table.tableName)
            self._put(table)

        self._called("create_table", create)

    def _put(self, table: Table) -> None:
        assert table.tableName is not None
        table.sd.location = table.sd.location or f"file:{self.warehouse}/{table.tableName}"
        self.tables[table.tableName] = table

    def _rename(self, name: str, table: Table) -> None:
        """Move everything that belongs to the name, as the metastore does for managed tables."""
        new = table.tableName
        assert new is not None
        if new in self.tables:
            raise AlreadyExists("there is one", name=new)
        table.sd.location = f"file:{self.warehouse}/{new}"
        if (self.warehouse / name).exists():
            (self.warehouse / name).rename(self.warehouse / new)
        held = {key: value for key, value in self._write_ids.items() if key[0] == name}
        for old, txn_id in held:
            self._write_ids[new, txn_id] = self._write_ids.pop((old, txn_id))

    def alter_table(self, _db: str, name: str, table: Table, **_options: Any) -> None:
        def alter() -> None:
            if name not in self.tables:
                raise NotFound("no such table", name=name)
            if table.tableName != name:
                self._rename(name, table)
            del self.tables[name]
            self._put(table)

        self._called("alter_table", alter)

    def drop_table(self, _db: str, name: str, **_options: Any) -> None:
        def drop() -> None:
            del self.tables[name]
            self.partitions.pop(name, None)
            shutil.rmtree(self.warehouse / name, ignore_errors=True)
            for key in [key for key in self._write_ids if key[0] == name]:
                del self._write_ids[key]

        self._called("drop_table", drop)

    def _name(self, table: str, partition: Partition) -> str:
        (key,) = self.tables[table].partitionKeys or []
        (value,) = partition.values or []
        return f"{key.name}={value}"

    def add_partitions(self, _db: str, table: str, partitions: Sequence[Partition], **_options: Any) -> None:
        def add() -> None:
            root = self.tables[table].sd.location
            for partition in partitions:
                name = self._name(table, partition)
                partition.sd.location = partition.sd.location or f"{root}/{name}"
                self.partitions.setdefault(table, {}).setdefault(name, partition)

        self._called("add_partitions", add)

    def alter_partitions(
        self, _db: str, table: str, partitions: Sequence[Partition], **_options: Any
    ) -> None:
        def alter() -> None:
            for partition in partitions:
                self.partitions[table][self._name(table, partition)] = partition

        self._called("alter_partitions", alter)

    def drop_partitions(self, _db: str, table: str, names: Sequence[str], **_options: Any) -> None:
        def drop() -> None:
            for name in names:
                self.partitions.get(table, {}).pop(name, None)

        self._called("drop_partitions", drop)

    def drop_partition(self, _db: str, table: str, values: Sequence[str], **_options: Any) -> None:
        def drop() -> None:
            (key,) = self.tables[table].partitionKeys or []
            self.partitions.get(table, {}).pop(f"{key.name}={values[0]}", None)

        self._called("drop_partition", drop)

    def get_partitions(self, _db: str, table: str, names: Sequence[str]) -> list[Partition]:
        present = self.partitions.get(table, {})
        return [present[name].copy() for name in names if name in present]

    def open_replayed(self, _policy: str, source_txn: int) -> int:
        def open_one() -> int:
            if source_txn in self._ended:
                self.reopened.append(source_txn)
            if source_txn not in self._txns and not any(txn == source_txn for _, txn in self._write_ids):
                self.aborted.discard(source_txn)  # another transaction, as on a real target
            return self._txns.setdefault(source_txn, self._next_txn())

        return int(self._called("open_replayed", open_one))

    def _next_txn(self) -> int:
        self._opened += 1
        return 1000 + self._opened

    def allocate_replayed(
        self, _policy: str, _db: str, table: str, source_txn: int, write_id: int, *, reallocate: bool = False
    ) -> int | None:
        self.allocations.append((source_txn, write_id, reallocate))

        def allocate() -> int:
            if reallocate:
                self._write_ids[table, source_txn] = write_id
            return self._write_ids.setdefault((table, source_txn), write_id)

        answer: int | None = self._called("allocate_replayed", allocate)
        return answer

    def allocate_many_replayed(
        self, _policy: str, _db: str, table: str, allocations: Sequence[tuple[int, int]]
    ) -> dict[int, int]:
        """As Hive: in the order of the target's transactions, from the first named id on; see
        ``test_replayed_transactions``."""

        def allocate() -> dict[int, int]:
            if any(txn not in self._txns for txn, _ in allocations):
                return {}
            first = allocations[0][1]
            if first != self.write_ids.get(table, first - 1) + 1:
                self.damaged.append(table)
            for offset, txn in enumerate(sorted((txn for txn, _ in allocations), key=self._txns.__getitem__)):
                self._write_ids[table, txn] = first + offset
            return {self._txns[txn]: self._write_ids[table, txn] for txn, _ in allocations}

        answer: dict[int, int] = self._called("allocate_many_replayed", allocate)
        return answer

    def seed_write_ids(self, table: str, high_water_mark: int) -> None:
        """Make the write ids of a table begin after a mark, as a load does."""
        self._write_ids[table, -1] = high_water_mark

    def commit_replayed(self, _policy: str, source_txn: int, writes: list[WriteEventInfo]) -> None:
        def commit() -> None:
            self.commits.append((source_txn, list(writes)))
            if self._txns.pop(source_txn, None) is not None:
                self._ended.add(source_txn)

        self._called("commit_replayed", commit)

    def abort_replayed(self, _policy: str, source_txn: int) -> None:
        def abort() -> None:
            if self._txns.pop(source_txn, None) is not None:
                self.aborted.add(source_txn)
                self._ended.add(source_txn)

        self._called("abort_replayed", abort)

    def valid_write_ids(self, tables: list[str]) -> list[ValidWriteIds]:
        return [self._valid_write_ids(name, name.partition(".")[2]) for name in tables]

    def _valid_write_ids(self, name: str, table: str) -> ValidWriteIds:
        held = {write_id: txn for (owner, txn), write_id in self._write_ids.items() if owner == table}
        opened = {write_id for write_id, txn in held.items() if txn in self._txns}
        aborted = {write_id for write_id, txn in held.items() if txn in self.aborted}
        opened |= set(self.invalid.get(table, ()))
        mark = max([*held, *opened], default=0)
        return ValidWriteIds(name, mark, open=tuple(sorted(opened)), aborted=tuple(sorted(aborted - opened)))

    def highest_write_id(self, _db: str, table: str) -> int:
        return self.write_ids.get(table, 0)

    def open_txns_info(self) -> GetOpenTxnsInfoResponse:
        opened = [TxnInfo(id=txn, state=TxnState.OPEN, user="", hostname="") for txn in self._txns.values()]
        return GetOpenTxnsInfoResponse(txn_high_water_mark=0, open_txns=opened)

    def current_event_id(self) -> int:
        """Of the source, which the fake also plays."""
        return self.newest_event_id

    def next_events(self, after: int, _limit: int) -> list[Any]:
        """Return the oldest event of the source's log after ``after``."""
        found = [event_id for event_id in sorted(self.logged) if event_id > after]
        return [SimpleNamespace(eventId=found[0])] if found else []

    def has_event(self, event_id: int, db: str, tables: Sequence[str] = ()) -> bool:
        """Whether an event of the source's log concerns ``db`` and one of ``tables``."""
        found = self.logged.get(event_id, (None, None))
        return found[0] == db and (not tables or found[1] in tables)

    hive_version = V4_2
    """Of both sides."""

    def supports(self, _call: str) -> bool:
        return True

    def replayed_txns(self, _policy: str) -> dict[int, int]:
        return dict(self._txns)

    def all_constraints(self, _db: str, _table: str) -> dict[Any, list[Any]]:
        """No table has constraints."""
        return {}

    def close(self) -> None:
        """Nothing to release."""


READS = frozenset(
    {
        "all_constraints",
        "close",
        "current_event_id",
        "function_names",
        "get_database",
        "get_partitions",
        "get_table",
        "get_tables",
        "has_event",
        "highest_write_id",
        "metastore_uuid",
        "newest_txn_id",
        "next_events",
        "open_txns_info",
        "replayed_txns",
        "supports",
        "table_names",
        "valid_write_ids",
    }
)


class FakeClient:
    """A client of the fake, with a guard in front of calls that change something, as the real client has."""

    def __init__(self, target: FakeTarget, guard: Callable[[], None]) -> None:
        self.target = target
        self.guard = guard

    def clone(self, *, guard: Callable[[], None] | None = None) -> FakeClient:
        return FakeClient(self.target, guard or self.guard)

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self.target, name)
        if not callable(answer) or name in READS:
            return answer

        def call(*arguments: Any, **options: Any) -> Any:
            self.guard()
            return answer(*arguments, **options)

        return call


def open_copies(position: TargetPosition, files: FileSystems, allowed: AllowedRoots) -> CopyPool:
    """Return the copy thread of one process."""
    return CopyPool(Copier(files, allowed, attempts_max=2, guard=position.require_held), workers=1)


def fake_context(
    target: FakeTarget,
    policy: Policy,
    *,
    files: FileSystems,
    allowed: AllowedRoots,
    clock: Clock,
    lanes: int = 0,
) -> Context:
    """Return the context of one process, with its own clients and copies; the fake also plays the source."""
    own: Any = target
    position = TargetPosition(own, policy, clock=clock)
    metastore = position.open_client()
    table_cache = TableCache(metastore, policy)
    return Context(
        policy=policy,
        source=metastore,
        target=metastore,
        table_cache=table_cache,
        target_position=position,
        tables=PolicyTables(policy.source_db, table_cache, quarantine=Quarantine(clock=clock)),
        copies=open_copies(position, files, allowed),
        files=files,
        observer=SilentObserver(),
        lanes=lanes,
    )


def a_dispatcher(context: Context) -> Dispatcher:
    """Return a dispatcher that records no position and proves every commit at once."""
    return Dispatcher(context, CommitProofs(context), record_before=lambda _event_id: None)


@dataclass
class FakedReplica:
    """A projection of policy ``shop`` on the fake, with real copies between directories of the test."""

    directory: Path
    target: FakeTarget
    store: Store
    context: Context
    projection: ReplicationProjection
    clock: Clock

    def file(
        self,
        name: str = "bucket_00000_0",
        content: bytes = b"rows",
        *,
        write_id: int = 1,
        overwrites: bool = False,
    ) -> SourceFile:
        """Put a file at the source, in the directory of its write id."""
        subdir = f"base_{write_id:07d}" if overwrites else f"delta_{write_id:07d}_{write_id:07d}_0000"
        path = self.directory / "source" / "orders" / subdir / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return SourceFile(
            f"file:{path}", hashlib.md5(content, usedforsecurity=False).hexdigest(), None, subdir
        )

    def files_on_target(self) -> list[str]:
        """Return the names of the visible files on the target."""
        root = self.target.warehouse
        return sorted(str(p.relative_to(root)) for p in root.rglob("*") if p.is_file())

    @property
    def parameters(self) -> dict[str, str]:
        """The parameters of the target database, which a test may change as another client would."""
        database = self.target.databases["shop_r"]
        database.parameters = database.parameters or {}
        return database.parameters

    def restart(self, *, target_at: int | None = None, store: Store | None = None) -> ReplicationProjection:
        """Open the policy in a new process, and return its projection; ``store`` is another state file.

        With ``target_at``, the target's position is ahead, as after a kill before the position was recorded.
        """
        if target_at is not None:
            self.parameters["repl.last.id"] = str(target_at)
        old = self.context
        old.copies.close(0)
        self.context = fake_context(
            self.target, old.policy, files=old.files, allowed=old.copies.allowed, clock=self.clock
        )
        self.store = self.store if store is None else store
        self.projection = ReplicationProjection(
            source_name="lake", context=self.context, store=self.store, clock=self.clock
        )
        self.projection.open()
        self.target.calls.clear()
        return self.projection

    def stored_quarantine(self) -> dict[str, str]:
        """Return the stored quarantine: tables and error codes."""
        stored = Quarantine()
        stored.load(self.store)
        return {entry.table: entry.code for entry in stored.entries()}

    def stored_position(self) -> int:
        """Return the stored position."""
        value = self.store.get(POSITION_KEY)
        assert value is not None
        return Position.from_bytes(value).event_id


def faked_replica(
    directory: Path, *, store: Store | None = None, lanes: int = 0, **policy: Any
) -> FakedReplica:
    """Return a replica of ``shop`` as ``shop_r``, bootstrapped at event 0, with an empty target database.

    Without lanes, the order of all calls is that of the events.
    """
    target, now = FakeTarget(directory / "target"), Clock()
    target.warehouse.mkdir(parents=True, exist_ok=True)
    store = store or MemoryStore()
    chosen = Policy(name="shop", source_db="shop", target_db="shop_r", **policy)
    target.databases["shop_r"] = Database(name="shop_r", parameters={})
    file_systems = open_file_systems()
    allowed = AllowedRoots.of([f"file:{directory}/source"])
    context = fake_context(target, chosen, files=file_systems, allowed=allowed, clock=now, lanes=lanes)
    with store.transaction() as txn:
        txn.put(POSITION_KEY, Position(0).to_bytes())
    projection = ReplicationProjection(source_name="lake", context=context, store=store, clock=now)
    projection.open()
    target.calls.clear()
    return FakedReplica(directory, target, store, context, projection, now)
