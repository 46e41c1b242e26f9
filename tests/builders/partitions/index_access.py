"""The index of a source in memory, in a state file, as the endpoint opens it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from daemon.endpoint.answers.index_answers import IndexAnswers
from daemon.endpoint.answers.table_access import Forward, TableView
from daemon.endpoint.freshness.index_access import IndexAccess, PositionWatch
from daemon.endpoint.freshness.newest_event import Freshness, NewestEvent
from daemon.endpoint.verification.differing_tables import DifferingTables
from dev.fixtures.memory_source import DB, MemorySource
from handlers.catalog.index.partition_snapshot import IndexFile
from handlers.structs import binary
from handlers.structs.objects import Partition
from state.store.sqlite import SqliteStore
from tests.builders.catalog.indexed_source import Indexed
from tests.builders.endpoint.partition_requests import positional, read_answer
from tests.builders.endpoint.scripted_metastore import Outcomes, SettingsOnly


EXACT = Freshness()


class FakeTime:
    """A clock that pauses advance, and each look at it a little; ``meanwhile`` runs in every pause."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.meanwhile: Callable[[], object] = lambda: None

    def clock(self) -> float:
        """Return the time, later than before."""
        self.now_s += 0.000_001
        return self.now_s

    def pause(self, seconds: float) -> None:
        """Advance the time."""
        self.now_s += seconds
        self.meanwhile()


class FakeQuery:
    """A query that the source answers as soon as it is sent, so that its result is as old as it may be."""

    def __init__(self, query: Callable[[], int]) -> None:
        self._query = query
        self._found = 0

    def send(self) -> None:
        """Ask the source."""
        self._found = self._query()

    def receive(self) -> int:
        """Return its answer."""
        return self._found


@dataclass
class Opened:
    """A catalog that follows the source, and the access of another process to its index."""

    source: MemorySource
    indexed: Indexed
    access: IndexAccess
    time: FakeTime
    differing: DifferingTables
    waited_for: list[int]
    queries: list[int]
    outcomes: Outcomes
    responder: IndexAnswers
    """Answers calls from the index, and repeats its answers while their tables do not change."""
    metastore: SettingsOnly = field(default_factory=SettingsOnly)

    def read(self, table: str) -> dict[tuple[str, ...], Partition] | str:
        """Return the partitions of a table, or the reason to forward."""
        found = self.access.arrive().read(DB.upper(), table, lambda view: content(view, table))
        return str(found.reason) if isinstance(found, Forward) else found[0]

    def answer_at(self, table: str) -> tuple[int, dict[tuple[str, ...], Partition]] | None:
        """Return the event that an answer reflects, and its partitions; None if the call must be
        forwarded."""
        asked = positional("get_partitions", DB, table, -1)
        answer = self.responder.respond(asked, self.metastore)
        if answer is None:
            return None
        _, _, event_id = self.outcomes.answered_calls[-1]
        return event_id, {tuple(one.values): one for one in read_answer(answer)}


def content(view: TableView, table: str) -> dict[tuple[str, ...], Partition]:
    """Return all partitions of a view, as the metastore would send them."""
    snapshot = view.snapshot
    found = snapshot.index.partitions(snapshot.index.prepare(view.name, ""))
    whole = [b"".join(snapshot.payloads.join([each.payload], DB, table, snapshot.budget)) for each in found]
    return {each.values: binary.decode(Partition, data) for each, data in zip(found, whole, strict=True)}


@contextmanager
def opened_index(
    source: MemorySource, directory: Path, freshness: Freshness = EXACT, wait_s: float = 1.0
) -> Iterator[Opened]:
    """Open the catalog of a source in ``directory``, and the access to it."""
    path = directory / "catalog-s.db"
    store: Any = SqliteStore(path, schema_version=1, snapshots=True, durable=False)
    with closing(store), closing(IndexFile(path, schema_version=1)) as file:
        time, queries = FakeTime(), itertools.count(1)
        made: list[int] = []
        waited_for: list[int] = []

        def query() -> int:
            made.append(next(queries))
            return source.current_event_id()

        differing = DifferingTables()
        access = IndexAccess(
            file=file,
            newest=NewestEvent(FakeQuery(query), time.clock),
            watch=PositionWatch(file.position, time.clock, time.pause),
            differing=differing,
            freshness=freshness,
            wait_s=wait_s,
            behind=waited_for.append,
            clock=time.clock,
        )
        outcomes = Outcomes()
        yield Opened(
            source,
            Indexed(source, store=store),
            access,
            time,
            differing,
            waited_for,
            made,
            outcomes,
            IndexAnswers(access, outcomes),
        )
