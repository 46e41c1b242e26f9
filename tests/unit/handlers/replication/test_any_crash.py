"""Random histories of a source: wherever the process is killed, the replica ends equal to the source."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handlers.events import Event, SourceFile
from handlers.replication.context import Context
from handlers.replication.position import progress
from handlers.replication.position.progress import RECORD_EVENTS
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from handlers.replication.transactions import lookahead
from handlers.structs.objects import Table
from state.event_log.positions import POSITION_KEY, Position
from state.store import Transaction
from state.store.memory import MemoryStore
from tests.builders.daemon.loops import eventually
from tests.builders.replication.fake_target import (
    FakedReplica,
    FakeTarget,
    Killed,
    faked_replica,
    open_copies,
)
from tests.builders.replication.replay_events import (
    a_table,
    aborted,
    allocated,
    changed,
    committed,
    created,
    dropped,
    partition_altered,
    partitions_added,
    partitions_dropped,
    with_object,
    written,
)


NAMES = ("a", "b")


@dataclass
class Source:
    """A source database: its contents and the log that produced them."""

    directory: Path
    events: list[Event] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=dict)
    """The number that the last alteration of each table wrote into it."""
    files: dict[str, set[str]] = field(default_factory=dict)
    write_ids: dict[str, int] = field(default_factory=dict)
    txns: int = 0
    partitions: dict[str, dict[str, str]] = field(default_factory=dict)
    """The note in each partition, by table and value."""
    open: dict[int, dict[str, int]] = field(default_factory=dict)
    """The write ids of open transactions, by table."""

    def do(self, choice: int) -> None:
        """Make one of the changes that are possible now."""
        here, free = sorted(self.files), [name for name in NAMES if name not in self.files]
        can = [partial(self.create, name) for name in free]
        for name in here:
            can += [
                partial(self.write, name, commits=True),
                partial(self.drop, name),
                partial(self.alter, name),
            ]
            can += [partial(self.rename, name, other) for other in free]
            can.append(partial(self.write, name, commits=False))
        can[choice % len(can)]()

    def interleave(self, choice: int) -> None:
        """Make a step of one of several transactions, or change a table that none of them writes into."""
        name, written_to = NAMES[choice % 2], {each for held in self.open.values() for each in held}
        if name not in self.files:
            self.create(name)
            return
        match choice // 2 % 8:
            case 0 | 1 | 2:
                self.txns += 1
                self._allocate(self.txns, name)
            case 3 if self.open and name not in self.open[min(self.open)]:
                self._allocate(min(self.open), name)
            case 4 if self.open:
                self._end(max(self.open), commits=True)
            case 5 if self.open:
                self._end(min(self.open), commits=False)
            case 6 if name not in written_to:
                self.drop(name)
            case 7:
                self.alter(name)
            case _ if self.open:
                self._end(min(self.open), commits=True)

    def end_all(self) -> None:
        for txn_id in sorted(self.open):
            self._end(txn_id, commits=True)

    def _allocate(self, txn_id: int, name: str) -> None:
        self.write_ids[name] += 1
        write_id = self.write_ids[name]
        self.open.setdefault(txn_id, {})[name] = write_id
        self._log(lambda at: allocated(at, txn_id, write_id, name))

    def _end(self, txn_id: int, *, commits: bool) -> None:
        held, at = self.open.pop(txn_id), self._next()
        if not commits:
            self.events.append(aborted(at, txn_id))
            return
        parts = len(held) + 1
        for part, (name, write_id) in enumerate(held.items()):
            file = self._file(txn_id, write_id)
            self.files[name].add(f"{file.subdir}/bucket_{txn_id}")
            self.events.append(
                written(at, file, txn_id=txn_id, write_id=write_id, table=name, part=part, parts=parts)
            )
        self.events.append(committed(at, txn_id, part=parts - 1, parts=parts))

    def create(self, name: str) -> None:
        self._log(lambda at: created(at, name))
        self.notes[name], self.files[name], self.write_ids[name] = 0, set(), 0

    def drop(self, name: str) -> None:
        self._log(lambda at: with_object(dropped(at, name)))
        del self.notes[name], self.files[name], self.write_ids[name]

    def alter(self, name: str) -> None:
        self.notes[name] = len(self.events) + 1
        self._log(lambda at: self._altered(at, name, name))

    def rename(self, name: str, other: str) -> None:
        self._log(lambda at: self._altered(at, name, other))
        self.notes[other] = self.notes.pop(name)
        self.files[other] = self.files.pop(name)
        self.write_ids[other] = self.write_ids.pop(name)

    def do_to_partitions(self, choice: int) -> None:
        """Change one partition of one table, or write into a table; the first changes create the tables."""
        missing = [name for name in NAMES if name not in self.files]
        if missing:
            self._log(lambda at: created(at, missing[0], partition_columns=("dt",)))
            self.notes[missing[0]], self.files[missing[0]], self.write_ids[missing[0]] = 0, set(), 0
            return
        name, value = NAMES[choice % 2], "xyz"[choice // 2 % 3]
        present = self.partitions.setdefault(name, {})
        match choice // 6 % 4:
            case 0 if value not in present:
                present[value] = "0"
                self._log(lambda at: with_object(partitions_added(at, name, value)))
            case 1 if value in present:
                del present[value]
                self._log(lambda at: with_object(partitions_dropped(at, name, value)))
            case 2 if value in present:
                present[value] = note = str(len(self.events))
                self._log(lambda at: with_object(partition_altered(at, value, name, note=note)))
            case 3:
                self.write(name, commits=choice // 24 % 2 == 0)

    def _log(self, event: Callable[[int], Event]) -> None:
        self.events.append(event(self._next()))

    def _next(self) -> int:
        return self.events[-1].event_id + 1 if self.events else 1

    def _altered(self, at: int, old: str, new: str) -> Event:
        return changed(at, self._table(old, old), self._table(new, old))

    def _table(self, name: str, held: str) -> Table:
        return a_table(name, parameters={"transactional": "true", "note": str(self.notes[held])})

    def write(self, name: str, *, commits: bool) -> None:
        self.txns += 1
        self.write_ids[name] += 1
        txn_id, write_id = self.txns, self.write_ids[name]
        self._log(lambda at: allocated(at, txn_id, write_id, name))
        if not commits:
            self._log(lambda at: aborted(at, txn_id))
            return
        file = self._file(txn_id, write_id)
        at = self._next()
        self.events += [
            written(at, file, txn_id=txn_id, write_id=write_id, table=name, part=0, parts=2),
            committed(at, txn_id, part=1, parts=2),
        ]
        self.files[name].add(f"{file.subdir}/bucket_{txn_id}")

    def _file(self, txn_id: int, write_id: int) -> SourceFile:
        subdir = f"delta_{write_id:07d}_{write_id:07d}_0000"
        path = self.directory / "source" / subdir / f"bucket_{txn_id}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"%d" % txn_id)
        return SourceFile(f"file:{path}", None, None, subdir)


class MortalStore(MemoryStore):
    """A store whose process may be killed at any transaction."""

    def __init__(self, target: FakeTarget) -> None:
        super().__init__()
        self._target = target

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        self._target.step()
        with super().transaction() as txn:
            yield txn
        self._target.step()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("crashes")


@pytest.fixture(scope="module", params=[True, False], ids=["overlapping", "in order"])
def faked(base: Path, request: pytest.FixtureRequest) -> Iterator[FakedReplica]:
    """One file system for all examples."""
    made = faked_replica(base)
    made.context = replace(made.context, overlaps=request.param)
    yield made
    made.projection.close()


def run(faked: FakedReplica, target: FakeTarget, store: MortalStore, events: list[Event]) -> bool:
    """Run a process that applies the remaining events; return whether it survived."""
    context = newborn(faked.context, target)
    replay = ReplicationProjection(source_name="lake", context=context, store=store)
    with suppress(Killed):
        position = replay.open()
        replay.apply([e for e in events if not position.covers(e.event_id, e.part)])
        replay.settle()
        assert replay.quarantined() == ()
    replay._transactions.files.cancel_all()
    eventually(lambda: context.copies.pending() == (0, 0))  # a dead process copies nothing
    context.copies.close(0)
    return not target.dead


def newborn(context: Context, target: FakeTarget) -> Context:
    """Return the context of a new process: no state, only the connections."""
    metastore: Any = target
    position = TargetPosition(metastore, context.policy)
    made = Context.between(
        position.open_client(),
        position,
        context.policy,
        copies=open_copies(position, context.files, context.copies.allowed),
        files=context.files,
        observer=context.observer,
    )
    return replace(made, overlaps=context.overlaps)


def equals(target: FakeTarget, source: Source) -> None:
    """Assert that the target has the contents of the source and no open transaction."""
    assert {n: int((t.parameters or {}).get("note", "0")) for n, t in target.tables.items()} == source.notes
    for name, files in source.files.items():
        root = target.warehouse / name
        assert {str(p.relative_to(root)) for p in root.rglob("bucket_*")} == files, name
    assert target.open_txns == []
    assert target.reopened == []
    assert target.damaged == []
    present = {
        (name, partition): (values.parameters or {})["note"]
        for name, partitions in target.partitions.items()
        for partition, values in partitions.items()
    }
    assert present == {
        (name, f"dt={value}"): note
        for name, notes in source.partitions.items()
        for value, note in notes.items()
    }
    drawn = {name: write_id for name, write_id in source.write_ids.items() if write_id}
    assert target.write_ids == drawn


@dataclass
class Deaths:
    """Runs the history of a source once for each step at which a process can be killed."""

    faked: FakedReplica
    base: Path
    source: Source

    def try_all(self, *, lose_state: bool) -> None:
        for death in ((step, after) for step in count(1) for after in (False, True)):
            shutil.rmtree(self.base / "target", ignore_errors=True)
            target = FakeTarget(self.base / "target")
            target.warehouse.mkdir()
            database = self.faked.target.databases["shop_r"].copy()
            database.parameters = {"repl.last.id": "0"}
            target.databases["shop_r"] = database
            target.newest_event_id = self.source.events[-1].event_id
            store = new_store(target)
            target.killed_at(death)
            lived = run(self.faked, target, store, self.source.events)
            target.killed_at(None)
            after = MortalStore(target) if lose_state else store
            assert run(self.faked, target, after, self.source.events)
            equals(target, self.source)
            if lived:
                break


def new_store(target: FakeTarget) -> MortalStore:
    """Return the state of a policy that was bootstrapped before the first event."""
    store = MortalStore(target)
    with store.transaction() as txn:
        txn.put(POSITION_KEY, Position(0).to_bytes())
    return store


def write_history(base: Path, choices: list[int], *, partitions: bool = False) -> Source:
    shutil.rmtree(base / "source", ignore_errors=True)
    source = Source(base)
    for choice in choices:
        if partitions:
            source.do_to_partitions(choice)
        else:
            source.do(choice)
    return source


@pytest.mark.parametrize("record_events", [1, RECORD_EVENTS], ids=["every event", "every batch"])
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=6))
@example([0, 1, 4, 0, 0, 4])  # the name of a renamed table is given to another
def test_a_replica_killed_anywhere_ends_equal_to_its_source(
    faked: FakedReplica, base: Path, monkeypatch: pytest.MonkeyPatch, record_events: int, choices: list[int]
) -> None:
    monkeypatch.setattr(progress, "RECORD_EVENTS", record_events)
    Deaths(faked, base, write_history(base, choices)).try_all(lose_state=False)


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 1000), min_size=3, max_size=6))
@example([0, 1, 4, 0, 0, 4])
@example([0, 1, 1, 4, 1])  # two commits that the target's position does not include, and an abort
@example([0, 1, 2, 0, 1])  # the name of a dropped table is given to another
def test_a_replica_killed_anywhere_ends_equal_to_its_source_although_its_state_is_lost(
    faked: FakedReplica, base: Path, choices: list[int]
) -> None:
    """It continues from the target's own position, which is behind."""
    Deaths(faked, base, write_history(base, choices)).try_all(lose_state=True)


ADD_X, ADD_Y, ADD_Z, DROP_X, ALTER_X, ALTER_Y, WRITE, WRITE_OTHER = 0, 2, 4, 6, 12, 14, 18, 19
"""Changes of the first table, and a write into the other."""


@pytest.mark.parametrize("lose_state", [False, True], ids=["with its state", "without its state"])
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 47), min_size=4, max_size=9))
@example([0, 0, ADD_X, WRITE_OTHER, ADD_Y, ADD_Z])  # joined across a commit of the other table
@example([0, 0, ADD_X, WRITE, ADD_Y])  # not joined across a commit of this one
@example([0, 0, ADD_X, ADD_Y, DROP_X, ADD_X, ADD_Z])
@example([0, 0, ADD_X, ADD_Y, ALTER_X, ALTER_Y, ALTER_X, WRITE_OTHER, ALTER_Y])
def test_a_replica_killed_anywhere_while_it_joins_changes_of_partitions_ends_equal_to_its_source(
    faked: FakedReplica, base: Path, lose_state: bool, choices: list[int]
) -> None:
    Deaths(faked, base, write_history(base, choices, partitions=True)).try_all(lose_state=lose_state)


BEGIN_A, BEGIN_B, ALSO_B, COMMIT_NEWEST, ABORT_OLDEST, DROP_A, ALTER_A, COMMIT_OLDEST = (
    0,
    1,
    7,
    8,
    10,
    12,
    14,
    6,
)
"""Steps of transactions that write into two tables."""


@pytest.mark.parametrize("lose_state", [False, True], ids=["with its state", "without its state"])
@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 15), min_size=4, max_size=9))
@example([0, 1, BEGIN_A, BEGIN_A, BEGIN_A, COMMIT_NEWEST, ABORT_OLDEST, BEGIN_A])
@example(
    [0, 1, BEGIN_A, BEGIN_B, BEGIN_A, ALSO_B, BEGIN_B, COMMIT_NEWEST]
)  # the tables' ids are in different orders
@example([0, 1, BEGIN_A, BEGIN_A, COMMIT_OLDEST, COMMIT_OLDEST, DROP_A, 0, BEGIN_A, BEGIN_A])
@example([0, 1, BEGIN_A, ALTER_A, BEGIN_A, ALTER_A, BEGIN_B, COMMIT_OLDEST, BEGIN_A])
def test_a_replica_killed_anywhere_while_transactions_are_opened_ahead_ends_equal_to_its_source(
    faked: FakedReplica, base: Path, monkeypatch: pytest.MonkeyPatch, lose_state: bool, choices: list[int]
) -> None:
    monkeypatch.setattr(lookahead, "JOINED_MIN", 2)
    shutil.rmtree(base / "source", ignore_errors=True)
    source = Source(base)
    for choice in choices:
        source.interleave(choice)
    source.end_all()
    Deaths(faked, base, source).try_all(lose_state=lose_state)
