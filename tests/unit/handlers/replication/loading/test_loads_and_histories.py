"""Random histories of several tables with loads at random moments: the replica ends equal to the source."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from handlers.replication.loading import catch_up as catch_up_module
from handlers.replication.loading import follower
from handlers.replication.tables.table_loads import LoadedTable
from handlers.replication.transactions.reconciliation import RECONCILE_S
from handlers.structs.transactions import GetOpenTxnsInfoResponse
from state.errors import InvalidRequest
from tests.builders.replication.fake_target import FakedReplica, FakeTarget, faked_replica
from tests.builders.replication.random_histories import NAMES, RandomHistory


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("loads")


@pytest.fixture
def runs(base: Path) -> Iterator[Runs]:
    made = Runs(base)
    yield made
    made.close()


class Runs:
    """Replicas of the examples of one test, closed together."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.made: list[FakedReplica] = []

    def replica(self) -> FakedReplica:
        shutil.rmtree(self.base, ignore_errors=True)
        self.close()
        self.made.append(faked_replica(self.base))
        return self.made[-1]

    def close(self) -> None:
        for replica in self.made:
            replica.projection.close()
        self.made.clear()


def load(history: RandomHistory, replica: FakedReplica, name: str, event_id: int) -> LoadedTable:
    """Load a table on the fake target as of an event, as the loader does on a real one."""
    target, (state, files) = replica.target, history.load(name, event_id)
    if name in target.tables:
        target.drop_table("shop_r", name)
    if state is None:
        return LoadedTable(name, event_id, exists=False)
    target.create_table(history.table_object(name, state).copy())
    for file in files:
        path = target.warehouse / name / file.subdir / file.uri.rpartition("/")[2]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"loaded")
    if state.write_id:
        target.seed_write_ids(name, state.write_id)
    return LoadedTable(name, event_id, state.write_id)


def catch_up(history: RandomHistory, replica: FakedReplica, *, completely: bool = False) -> None:
    """Let loaded tables catch up with the events of the history: for one turn, or completely."""
    while replica.projection.loads.catch_up(
        lambda after, upto: [event for event in history.events if after < event.event_id <= upto]
    ):
        if not completely:
            return


@pytest.fixture(params=["in one turn", "in short turns"])
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables catch up at once, or with a few events in each turn, while replay continues in between."""
    if request.param == "in short turns":
        monkeypatch.setattr(catch_up_module, "PIECE_EVENTS", 1)
        monkeypatch.setattr(follower, "TURN_S", 0.0)


def finish_waiting(
    history: RandomHistory, replica: FakedReplica, since: dict[str, int], choices: random.Random
) -> None:
    """Finish the load of each waiting table or not, as of a random event since its request.

    ``since`` has the position of replay when each load was requested. Replay may be before or after the
    event.
    """
    for entry in replica.context.tables.loads.waiting():
        if entry.is_catching_up:
            continue
        event_id = choices.randint(since[entry.load_id + entry.table], history.last)
        if history.find_end(entry.table, event_id) is not None and choices.random() < 0.6:
            replica.projection.loads.finish(load(history, replica, entry.table, event_id))


def finish_all(history: RandomHistory, replica: FakedReplica, position: int) -> None:
    """Load what waits, and let all tables catch up; one that cannot resume waits for its load afterwards."""
    while waiting := replica.context.tables.loads.waiting():
        for entry in waiting:
            if not entry.is_catching_up:
                replica.projection.loads.finish(load(history, replica, entry.table, position))
        catch_up(history, replica, completely=True)


def reconcile(replica: FakedReplica) -> None:
    """Compare with a source without open transactions: those that a failed catch-up left open on the target
    are aborted."""
    nothing = GetOpenTxnsInfoResponse(txn_high_water_mark=10**6, open_txns=[])
    # The fake plays the source too
    replica.target.open_txns_info = lambda: nothing  # type: ignore[method-assign]
    replica.clock.now_s += RECONCILE_S
    replica.projection.settle()


def note_new(replica: FakedReplica, since: dict[str, int], position: int) -> None:
    for entry in replica.context.tables.loads.waiting():
        since.setdefault(entry.load_id + entry.table, position)


def assert_equal(target: FakeTarget, history: RandomHistory) -> None:
    notes = {name: int((table.parameters or {})["note"]) for name, table in target.tables.items()}
    assert notes == {name: table.note for name, table in history.tables.items()}
    for name, table in history.tables.items():
        root = target.warehouse / name
        found = {str(path.relative_to(root)) for path in root.rglob("bucket_*")}
        assert found == {path.partition("/")[2] for path in table.files.values()}, name
    assert target.open_txns == []
    ids = {name: table.write_id for name, table in history.tables.items() if table.write_id}
    assert {name: target.write_ids.get(name) for name in ids} == ids


@pytest.mark.usefixtures("turns")
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 1000), min_size=4, max_size=16), st.integers(0, 2**32))
@example(changes=[0, 0, 137, 0, 0, 1, 271, 9, 249, 163, 4, 0], seed=479001600)
def test_histories_with_loads_at_random_moments_end_equal(runs: Runs, changes: list[int], seed: int) -> None:
    replica = runs.replica()
    # S311: repeatable choices of a test
    history, choices = RandomHistory(runs.base), random.Random(seed)  # noqa: S311
    for change in changes:
        history.do(change)
    history.end_all()
    position, since = 0, dict[str, int]()
    while position < history.last:
        if choices.random() < 0.4:
            replica.projection.loads.request([choices.choice(NAMES)], "repair")
        note_new(replica, since, position)
        finish_waiting(history, replica, since, choices)
        catch_up(history, replica)
        upto = choices.randint(position + 1, history.last)
        replica.projection.apply([e for e in history.events if position < e.event_id <= upto])
        position = upto
        note_new(replica, since, position)
        assert replica.projection.quarantined() == ()
        if choices.random() < 0.3:
            replica.projection.open()
    finish_all(history, replica, position)
    reconcile(replica)
    assert_equal(replica.target, history)
    replica.context.tables.write_ids.check()


@pytest.mark.usefixtures("turns")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(0, 1000), min_size=4, max_size=16), st.integers(0, 2**32))
@example(changes=[0, 0, 1, 724, 0, 0, 0, 0, 2], seed=100557904)
def test_histories_with_quarantines_and_releases_at_random_moments_end_equal(
    runs: Runs, changes: list[int], seed: int
) -> None:
    replica = runs.replica()
    # S311: repeatable choices of a test
    history, choices = RandomHistory(runs.base), random.Random(seed)  # noqa: S311
    for change in changes:
        history.do(change)
    history.end_all()
    position, since = 0, dict[str, int]()

    def release() -> None:
        for entry in replica.context.tables.quarantine.entries():
            replica.projection.loads.release(
                entry.table, lambda after, upto: [e for e in history.events if after < e.event_id <= upto]
            )
        note_new(replica, since, position)
        catch_up(history, replica)
        note_new(replica, since, position)

    while position < history.last:
        if choices.random() < 0.5:
            call = choices.choice(["alter_table", "drop_table", "allocate_replayed", "create_table"])
            replica.target.fails(call, InvalidRequest("no"))
        upto = choices.randint(position + 1, history.last)
        replica.projection.apply([e for e in history.events if position < e.event_id <= upto])
        position = upto
        replica.clock.now_s += 1_000
        replica.target.answers.clear()
        note_new(replica, since, position)
        if choices.random() < 0.3:
            replica.projection.open()
        if choices.random() < 0.5:
            release()
        finish_waiting(history, replica, since, choices)
        catch_up(history, replica)
    release()
    finish_all(history, replica, position)
    reconcile(replica)
    assert replica.projection.quarantined() == ()
    assert_equal(replica.target, history)
    replica.context.tables.write_ids.check()
