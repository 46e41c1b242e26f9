"""Requests about a policy, and the loop between two batches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from daemon.consumer.projection import WAIT_S
from daemon.process.inbox import Inbox, send_request
from daemon.replica import requests
from daemon.replica.commands.endings import done_lines, plan_lines
from daemon.replica.followed import IDLE_S, FollowedReplica
from daemon.replica.loading.bootstrap_turns import BootstrapTurns
from daemon.replica.served_requests import PolicyRequests
from daemon.replica.status.left import LEFT, list_left
from daemon.replica.status.points import POINTS, PointStatus, PointTaker
from daemon.status.model import SourceStatus
from handlers.replication.loading.load_thread import LoadThread
from handlers.replication.loading.table.tools import LoadProgress, LoadSettings, LoadTools
from handlers.replication.operations.promotion import Promotion
from handlers.replication.position.target_claim import WRITTEN_KEY
from handlers.replication.projection import ReplicationProjection
from handlers.replication.tables.pause import REASON_CHARACTERS_MAX
from handlers.replication.tables.table_loads import LoadedTable, TableLoad
from state.errors import (
    BadInput,
    ConfigError,
    FilesUnavailable,
    IncompleteReplica,
    InvalidRequest,
    MetastoreUnavailable,
    NotFound,
)
from state.event_log.positions import POSITION_KEY, Position
from state.store.sqlite import SqliteStore
from tests.builders.daemon.assembly import app_of, config_of
from tests.builders.daemon.http_client import served
from tests.builders.daemon.loops import daemon_status, eventually
from tests.builders.kafka.relay_and_readers import run_in_turns
from tests.builders.replication.fake_target import FakedReplica, faked_replica
from tests.builders.replication.replay_events import a_table, allocated, altered, created
from tests.builders.stores.full_disk import full_disk


RESUMED = {"paused_since_s": None, "changed": True, "waits_for": None}
PAUSED = "The policy is paused: run 'tideline resume shop'."
NEW_POLICY = "The policy waits for its bootstrap: run 'tideline bootstrap shop'."


@pytest.fixture
def replica(tmp_path: Path) -> Iterator[FakedReplica]:
    made = faked_replica(tmp_path)
    yield made
    made.projection.close()


@contextmanager
def closing_replica(replica: FakedReplica) -> Iterator[FakedReplica]:
    try:
        yield replica
    finally:
        replica.projection.close()


class Beats:
    """A heartbeat that counts."""

    def __init__(self) -> None:
        self.stopping = threading.Event()
        self.beats = 0

    def beat(self) -> None:
        self.beats += 1

    def answered(self) -> None:
        self.beat()

    def wake(self) -> None:
        """Nothing rests."""

    def following(self) -> None:
        """Nothing to note."""

    def progress(self) -> None:
        """Nothing to note."""


class Closed:
    def close(self) -> None:
        """Nothing to close."""


def requests_of(projection: ReplicationProjection) -> PolicyRequests:
    return PolicyRequests(projection, lambda _after, _upto: [created(1)])


def load_at_once(entry: TableLoad, _tools: LoadTools, _progress: LoadProgress) -> LoadedTable:
    return LoadedTable(entry.table, event_id=9)


def follow(
    replica: FakedReplica,
    directory: Path,
    bootstraps: BootstrapTurns | None = None,
    replaying: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> tuple[FollowedReplica, Beats, list[int | None]]:
    pauses: list[int | None] = []
    threads = LoadThread(replica.context, Closed, LoadSettings(), load=load_at_once)  # type: ignore[arg-type]
    unused: Any = None
    followed = FollowedReplica(
        replica.projection,
        Inbox(directory / "requests"),
        threads,
        lambda: unused,
        bootstraps=bootstraps or BootstrapTurns(1),
        report_pause=lambda since_s, _: pauses.append(since_s),
        replaying=replaying,
    )
    beats = Beats()
    followed.connect(beats)
    return followed, beats, pauses


@contextmanager
def settling(followed: FollowedReplica, beats: Beats) -> Iterator[None]:
    """Follow in a thread during the block, as the loop does without events."""

    def settle() -> None:
        while not beats.stopping.is_set():
            followed.settle()
            run_in_turns(followed.hold(), beats.stopping)

    thread = threading.Thread(target=settle)
    thread.start()
    yield
    beats.stopping.set()
    thread.join(10)
    assert not thread.is_alive()


def opened(followed: FollowedReplica) -> Position:
    """Open it as the loop does that need not wait."""
    assert list(followed.prepare()) == []
    return followed.open()


@pytest.fixture
def stored_replica(tmp_path: Path) -> Iterator[FakedReplica]:
    """A replica with a state file."""
    made = faked_replica(tmp_path, store=SqliteStore(tmp_path / "replication-shop.db", schema_version=1))
    yield made
    made.projection.close()


def fill_disk_of_the_state(replica: FakedReplica) -> None:
    """Let the state file fail because its disk is full. There is space again afterwards."""
    with full_disk(64), pytest.raises(FilesUnavailable):
        replica.projection.pause.begin()


def test_a_policy_is_followed_again_once_the_disk_of_its_state_has_space(
    stored_replica: FakedReplica, tmp_path: Path
) -> None:
    followed, _, _ = follow(stored_replica, tmp_path)
    opened(followed)
    fill_disk_of_the_state(stored_replica)
    assert opened(followed).event_id == 0
    assert followed.apply([created(1)]).event_id == 1


def test_batches_count_as_replay_and_a_bootstrap_does_not(replica: FakedReplica, tmp_path: Path) -> None:
    positions: list[int] = []

    @contextmanager
    def replaying() -> Iterator[None]:
        positions.append(replica.projection.position.event_id)
        yield
        positions.append(replica.projection.position.event_id)

    followed, _, _ = follow(replica, tmp_path, replaying=replaying)
    opened(followed)
    assert positions == []
    followed.apply([created(1)])
    assert positions == [0, 1]


def test_requests_about_a_failed_policy_are_served_once_the_disk_of_its_state_has_space(
    stored_replica: FakedReplica, tmp_path: Path
) -> None:
    followed, _, _ = follow(stored_replica, tmp_path)
    opened(followed)
    fill_disk_of_the_state(stored_replica)
    assert followed._do_while_failed({"do": "resume"}) == RESUMED


def test_a_release_makes_a_quarantined_table_wait_and_can_be_repeated(replica: FakedReplica) -> None:
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.projection.apply([created(1)])
    requests = requests_of(replica.projection)
    for reason in (
        "the target lacks the table, or some of its rows",
        "its load was requested before",
    ):
        answer = {"tables": ["orders"], "resumes_at": None, "reason": reason, "waits_for": None}
        assert requests.do({"do": "release", "table": "shop.Orders"}) == answer
    assert replica.projection.quarantined() == ()
    assert [entry.reason for entry in replica.context.tables.loads.waiting()] == ["release"]


def test_a_release_names_the_event_at_which_the_table_resumes(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.fails("alter_table", InvalidRequest("no"))
    replica.projection.apply([altered(2)])
    requests = requests_of(replica.projection)
    answer = requests.do({"do": "release", "table": "orders"})
    assert answer == {"tables": ["orders"], "resumes_at": 2, "reason": None, "waits_for": None}
    forced = requests.do({"do": "release", "table": "orders", "load": True})
    assert (forced["resumes_at"], forced["reason"]) == (None, "a load was requested")


def test_a_release_of_a_table_that_is_followed_is_refused(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    with pytest.raises(NotFound, match="neither quarantined nor waiting"):
        requests_of(replica.projection).do({"do": "release", "table": "orders"})


def test_a_load_can_be_requested_for_several_tables(replica: FakedReplica) -> None:
    answer = requests_of(replica.projection).do({"do": "load", "tables": ["a", "b"], "reason": "repair"})
    assert answer == {"tables": ["a", "b"], "waits_for": None}


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"do": "fly"},
        {"do": "load"},
        {"do": "load", "tables": []},
        {"do": "load", "tables": "a"},
        {"do": "load", "tables": [1]},
        {"do": "load", "tables": ["a"], "reason": "fun"},
        {"do": "release", "table": None},
        {"do": "prune"},
        {"do": "prune", "tables": []},
    ],
)
def test_an_invalid_request_is_refused(replica: FakedReplica, request_: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        requests_of(replica.projection).do(request_)
    assert len(replica.context.tables.loads) == 0


def test_a_prune_is_planned_and_done(tmp_path: Path) -> None:
    with closing_replica(faked_replica(tmp_path, exclude=("old",))) as replica:
        replica.context.tables.left.add("old")
        replica.target.create_table(a_table("old", location="file:/old", parameters={}))
        requests = requests_of(replica.projection)
        (drop,) = requests.do({"do": "plan-prune", "tables": []})["drops"]
        assert (drop["table"], drop["kind"], drop["location"]) == ("old", "table", "file:/old")
        (status,) = list_left("shop", replica.context)
        assert [each.table for each in status.tables] == ["shop_r.old"]
        assert "tideline prune shop" in LEFT.text((status,), 0.0)
        assert [sample.value for family in LEFT.families((status,)) for sample in family.samples] == [1.0]
        assert requests.do({"do": "prune", "tables": ["old"]}) == {"dropped": ["old"]}
        assert list_left("shop", replica.context) == ()


def test_a_requested_load_is_started_and_finished_between_batches(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, _, _ = follow(replica, tmp_path)
    opened(followed)
    replica.projection.loads.request(["orders"], "repair")

    def settled() -> bool:
        followed.settle()
        return not replica.context.tables.loads.waiting()

    eventually(settled)
    entry = replica.context.tables.loads.get("orders")
    assert entry is not None
    assert entry.event_id == 9


def test_a_paused_policy_sends_heartbeats_and_serves_requests_until_it_is_resumed(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, beats, pauses = follow(replica, tmp_path)
    requests_of(replica.projection).do({"do": "pause"})
    opened = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    opened.start()
    eventually(lambda: beats.beats > 0)
    assert send_request(tmp_path / "requests", {"do": "resume"}, 10) == RESUMED
    opened.join(10)
    assert not opened.is_alive()
    assert pauses[0] is not None
    assert pauses[-1] is None


def test_a_resume_of_a_policy_that_is_not_paused_changes_nothing_and_names_what_it_waits_for(
    new_replica: FakedReplica,
) -> None:
    requests = requests_of(new_replica.projection)
    assert requests.do({"do": "resume"}) == RESUMED | {"changed": False, "waits_for": NEW_POLICY}
    requests.do({"do": "pause"})
    assert requests.do({"do": "resume"}) == RESUMED | {"waits_for": NEW_POLICY}


def stop_target(replica: FakedReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the target's metastore be down."""

    def refuse(_name: str) -> None:
        raise MetastoreUnavailable("down for maintenance")

    monkeypatch.setattr(replica.target, "get_database", refuse)


def test_a_policy_is_paused_after_a_restart_although_its_target_is_down(
    replica: FakedReplica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests_of(replica.projection).do({"do": "pause"})
    replica.projection.forget_claim()
    stop_target(replica, monkeypatch)
    followed, beats, pauses = follow(replica, tmp_path)
    opened = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    opened.start()
    eventually(lambda: beats.beats > 0)
    answer = send_request(tmp_path / "requests", {"do": "load", "tables": ["orders"]}, 10)
    assert answer == {"tables": ["orders"], "waits_for": PAUSED}
    beats.stopping.set()
    opened.join(10)
    assert not opened.is_alive()
    assert pauses[0] is not None


def test_a_paused_policy_is_promoted(replica: FakedReplica, tmp_path: Path) -> None:
    requests_of(replica.projection).do({"do": "pause"})
    followed, beats, _ = follow(replica, tmp_path)
    opened = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    opened.start()
    eventually(lambda: beats.beats > 0)
    assert send_request(tmp_path / "requests", {"do": "promote"}, 10)["database"] == "shop_r"
    with pytest.raises(ConfigError, match="promoted"):
        send_request(tmp_path / "requests", {"do": "release", "table": "orders"}, 10)
    beats.stopping.set()
    opened.join(10)
    assert not opened.is_alive()


def test_a_policy_that_cannot_be_opened_keeps_position_and_quarantine_when_it_gets_a_request(
    replica: FakedReplica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replica.projection.apply([created(1), created(2, "other")])
    replica.target.fails("alter_table", InvalidRequest("no"))
    replica.projection.apply([altered(3)])
    stop_target(replica, monkeypatch)
    with pytest.raises(MetastoreUnavailable):
        replica.restart()
    assert replica.projection.read_state() == Position(3)
    assert replica.projection.quarantined() == ("shop.orders",)
    followed, _, _ = follow(replica, tmp_path)
    followed._do_while_failed({"do": "load", "tables": ["other"], "reason": "repair"})
    assert replica.stored_position() == 3
    assert replica.stored_quarantine() == {"orders": "invalid-request"}
    assert replica.store.get(WRITTEN_KEY) is not None, "the next opening compares it with the target"


def test_a_request_that_writes_the_position_is_refused_while_there_is_none(
    replica: FakedReplica, tmp_path: Path
) -> None:
    with replica.store.transaction() as txn:
        txn.delete(POSITION_KEY)
    followed, _, _ = follow(replica, tmp_path)
    with pytest.raises(ConfigError, match="no position"):
        followed._do_while_failed({"do": "load", "tables": ["orders"], "reason": "repair"})
    assert followed._do_while_failed({"do": "resume"}) == RESUMED | {"waits_for": NEW_POLICY}


def test_a_new_policy_rests_until_its_turn_and_leaves_it_when_it_is_stopped(
    replica: FakedReplica, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = BootstrapTurns(1)
    turns.ask("other")
    followed, beats, _ = follow(replica, tmp_path, turns)
    assert not list(followed.prepare()), "a policy that follows does not wait"
    monkeypatch.setattr(replica.projection, "needs_bootstrap", lambda: True)
    rests = followed.prepare()
    assert next(rests) > 0
    assert turns.find_place("shop") == 1
    turns.leave("other")
    assert list(rests) == []
    assert turns.find_place("shop") is None
    turns.ask("other")
    followed.open()
    assert turns.find_place("other") is None, "it has left its turn to the next one"
    rests = followed.prepare()
    assert next(rests) > 0
    beats.stopping.set()
    assert list(rests) == []
    followed.close()
    assert turns.list_waiting("shop") == ()


@pytest.fixture
def new_replica(replica: FakedReplica) -> FakedReplica:
    """A policy that was never bootstrapped."""
    with replica.store.transaction() as txn:
        txn.delete(POSITION_KEY)
    replica.parameters.clear()
    replica.projection.forget_claim()
    return replica


def test_a_new_policy_rests_until_an_operator_requests_its_bootstrap(
    new_replica: FakedReplica, tmp_path: Path
) -> None:
    reported: list[bool] = []
    followed, beats, _ = follow(new_replica, tmp_path)
    followed._report_new = reported.append
    resting = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    resting.start()
    eventually(lambda: reported)
    for request in ("retire", "promote"):
        with pytest.raises(ConfigError, match="no position"):
            send_request(tmp_path / "requests", {"do": request}, 10)
    assert resting.is_alive()
    answer = send_request(tmp_path / "requests", {"do": "bootstrap"}, 10)
    assert answer == {"policy": "shop", "reuse_files": False}
    resting.join(10)
    assert not resting.is_alive()
    assert (reported[0], reported[-1]) == (True, False)
    new_replica.target.newest_event_id = 7
    assert followed.open() == Position(7)
    with pytest.raises(InvalidRequest, match="already bootstrapped"):
        requests_of(new_replica.projection).do({"do": "bootstrap"})


def test_a_requested_bootstrap_begins_after_a_restart_and_a_later_request_replaces_the_first(
    new_replica: FakedReplica, tmp_path: Path
) -> None:
    requests = requests_of(new_replica.projection)
    assert requests.do({"do": "bootstrap", "reuse_files": True})["reuse_files"]
    new_replica.parameters["repl.last.id"] = "3"
    with pytest.raises(InvalidRequest, match="already bootstrapped"):
        requests.do({"do": "bootstrap"})
    new_replica.parameters.clear()
    assert not requests.do({"do": "bootstrap"})["reuse_files"]
    assert list(follow(new_replica, tmp_path)[0].prepare()) == [], "it does not wait for a request"
    assert new_replica.restart() == new_replica.projection
    assert new_replica.stored_position() == new_replica.target.newest_event_id


def test_a_new_policy_that_is_paused_refuses_its_bootstrap_until_it_is_resumed(
    new_replica: FakedReplica, tmp_path: Path
) -> None:
    followed, beats, pauses = follow(new_replica, tmp_path)
    resting = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    resting.start()
    eventually(lambda: beats.beats > 0)
    send_request(tmp_path / "requests", {"do": "pause"}, 10)
    eventually(lambda: any(pauses))
    with pytest.raises(InvalidRequest, match="the policy is paused"):
        send_request(tmp_path / "requests", {"do": "bootstrap"}, 10)
    send_request(tmp_path / "requests", {"do": "resume"}, 10)
    send_request(tmp_path / "requests", {"do": "bootstrap"}, 10)
    resting.join(10)
    assert not resting.is_alive()


@pytest.mark.parametrize("end", ["promote", "retire"])
def test_a_policy_that_has_ended_refuses_a_bootstrap(replica: FakedReplica, end: str) -> None:
    requests = requests_of(replica.projection)
    requests.do({"do": end})
    with pytest.raises(ConfigError, match=r"the policy was (promoted|retired)"):
        requests.do({"do": "bootstrap"})


def test_a_policy_without_work_rests_longer_each_time_until_something_concerns_it(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, _, _ = follow(replica, tmp_path)
    opened(followed)
    assert [followed.settle() for _ in range(3)] == [32.0, IDLE_S, IDLE_S]
    followed.apply([created(1)])
    assert followed.settle() == 32.0
    replica.projection.loads.request(["orders"], "repair")
    assert followed.settle() == WAIT_S


def test_a_pause_survives_a_restart(replica: FakedReplica) -> None:
    since = requests_of(replica.projection).do({"do": "pause", "reason": "new disks"})["paused_since_s"]
    restarted = requests_of(replica.restart())
    assert restarted.do({"do": "pause"}) == {"paused_since_s": since, "changed": False}
    assert replica.projection.pause.reason() == "new disks"
    longest = "x" * REASON_CHARACTERS_MAX
    restarted.do({"do": "pause", "reason": longest})
    with pytest.raises(BadInput, match="too long"):
        restarted.do({"do": "pause", "reason": longest + "x"})
    assert replica.projection.pause.reason() == longest, "another reason"
    assert restarted.do({"do": "resume"}) == RESUMED
    assert restarted.do({"do": "resume"}) == RESUMED | {"changed": False}
    assert replica.projection.pause.reason() == ""


def test_requests_are_served_while_the_loop_has_failed(replica: FakedReplica, tmp_path: Path) -> None:
    followed, _, _ = follow(replica, tmp_path)
    opened(followed)
    assert not followed.serve_failed()
    done: list[Any] = []
    sender = threading.Thread(
        target=lambda: done.append(send_request(tmp_path / "requests", {"do": "pause"}, 10))
    )
    sender.start()
    eventually(followed.serve_failed)
    sender.join(10)
    assert done[0]["paused_since_s"] is not None


def test_a_resume_of_a_failed_policy_lets_it_claim_its_target_as_after_a_restart(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, _, _ = follow(replica, tmp_path)
    opened(followed)
    for request, is_claimed in (({"do": "pause"}, True), ({"do": "resume"}, False)):
        sender = threading.Thread(target=send_request, args=(tmp_path / "requests", request, 10))
        sender.start()
        eventually(followed.serve_failed)
        sender.join(10)
        assert bool(replica.context.target_position.stamp) is is_claimed
    opened(followed)
    assert replica.context.target_position.stamp


def test_a_promotion_is_planned_and_done_between_batches_and_the_policy_is_not_followed_any_more(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, beats, _ = follow(replica, tmp_path)
    opened(followed)
    replica.projection.apply([created(1)])
    planned = requests_of(replica.projection).do({"do": "plan-promotion"})
    assert (planned["event_id"], planned["incomplete"]) == (1, ())

    with settling(followed, beats):
        first = send_request(tmp_path / "requests", {"do": "promote"}, 10)
        assert (first["event_id"], first["database"]) == (1, "shop_r")
        again = send_request(tmp_path / "requests", {"do": "promote"}, 10)
        assert again == first, "a repetition completes what was interrupted"
        with pytest.raises(ConfigError, match="promoted"):
            send_request(tmp_path / "requests", {"do": "release", "table": "orders"}, 10)


def test_a_promoted_policy_that_is_still_configured_waits_after_a_restart(
    replica: FakedReplica, tmp_path: Path
) -> None:
    replica.projection.apply([created(1)])
    requests_of(replica.projection).do({"do": "promote"})
    reported: list[object] = []
    followed, beats, _ = follow(replica, tmp_path)

    def report(promotion: Promotion | None) -> None:
        reported.append(promotion and promotion.event_id)
        beats.stopping.set()

    followed._report_end = report
    run_in_turns(followed.prepare(), beats.stopping)
    assert reported == [1]
    assert "create_table" not in replica.target.calls[-1:]


def test_a_policy_is_retired_while_it_is_followed_and_waits_until_it_is_removed(
    replica: FakedReplica, tmp_path: Path
) -> None:
    followed, beats, _ = follow(replica, tmp_path)
    opened(followed)
    replica.projection.apply([created(1)])
    reported: list[object] = []
    followed._report_end = reported.append

    with settling(followed, beats):
        for _ in range(2):
            done = send_request(tmp_path / "requests", {"do": "retire"}, 10)
            assert done == {"policy": "shop", "aborted": 0, "unmarked": False}
        eventually(lambda: reported)
        with pytest.raises(ConfigError, match="retired"):
            send_request(tmp_path / "requests", {"do": "release", "table": "orders"}, 10)

    again, stops, _ = follow(replica, tmp_path)
    again._report_end = lambda promotion: stops.stopping.set() if promotion is None else None
    run_in_turns(again.prepare(), stops.stopping)


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_policy_that_was_promoted_elsewhere_rests_as_promoted(
    replica: FakedReplica, tmp_path: Path, *, keeps_state: bool
) -> None:
    end_elsewhere(replica, {"tideline.promoted": "shop:417"}, keeps_state=keeps_state)
    followed, beats, _ = follow(replica, tmp_path)
    reported: list[Promotion | None] = []
    followed._report_end = reported.append
    resting = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    resting.start()
    eventually(lambda: reported)
    for request in ("plan-promotion", "promote"):
        assert send_request(tmp_path / "requests", {"do": request}, 10)["event_id"] == 417
    with pytest.raises(ConfigError, match="the policy was promoted"):
        send_request(tmp_path / "requests", {"do": "bootstrap"}, 10)
    beats.stopping.set()
    resting.join(10)
    assert {None if each is None else each.event_id for each in reported} == {417}
    assert replica.parameters == {"tideline.promoted": "shop:417"}


def test_the_promotion_of_another_policy_does_not_end_one(replica: FakedReplica) -> None:
    for value in ("blog:417", "shop:soon", "shop"):
        replica.parameters["tideline.promoted"] = value
        replica.projection.look_for_end()
        assert not replica.projection.has_ended


def end_elsewhere(replica: FakedReplica, parameters: dict[str, str], *, keeps_state: bool) -> None:
    """Let another process leave these parameters on the target; this one begins again."""
    replica.projection.apply([created(1)])
    replica.parameters.clear()
    replica.parameters.update(parameters)
    replica.projection.forget_claim()
    if not keeps_state:
        with replica.store.transaction() as txn:
            txn.delete(POSITION_KEY)


@pytest.mark.parametrize("keeps_state", [True, False])
def test_a_policy_that_was_retired_elsewhere_rests_as_retired(
    replica: FakedReplica, tmp_path: Path, *, keeps_state: bool
) -> None:
    left = {"tideline.retired": "shop", "tideline.epoch": "9-other", "repl.last.id": "1"}
    end_elsewhere(replica, left, keeps_state=keeps_state)
    followed, beats, _ = follow(replica, tmp_path)
    reported: list[object] = []
    followed._report_end = reported.append
    resting = threading.Thread(target=run_in_turns, args=(followed.prepare(), beats.stopping))
    resting.start()
    eventually(lambda: reported)
    for request in ("bootstrap", "pause"):
        with pytest.raises(ConfigError, match="the policy was retired"):
            send_request(tmp_path / "requests", {"do": request}, 10)
    done = send_request(tmp_path / "requests", {"do": "retire"}, 10)
    assert done == {"policy": "shop", "aborted": 0, "unmarked": False}
    beats.stopping.set()
    resting.join(10)
    assert set(reported) == {None}
    assert not replica.context.target_position.stamp, "it does not claim the target"


def test_an_incomplete_replica_is_promoted_by_force_only(replica: FakedReplica) -> None:
    replica.target.fails("create_table", InvalidRequest("no"))
    replica.projection.apply([created(1)])
    requests = requests_of(replica.projection)
    with pytest.raises(IncompleteReplica, match="orders: quarantined at event 1"):
        requests.do({"do": "promote"})
    done = requests.do({"do": "promote", "force": True})
    assert [each["table"] for each in done["incomplete"]] == ["orders"]
    assert "orders: incomplete: quarantined at event 1" in "\n".join(done_lines(done))


def test_the_text_of_a_promotion_names_point_open_writes_and_an_unreachable_source() -> None:
    planned = {
        "policy": "shop",
        "database": "shop_r",
        "event_id": 7,
        "time_s": 60,
        "aborted": 1,
        "removed": ["repl.last.id"],
        "open_writes": {"orders": [2, 3]},
        "incomplete": [],
        "missing": [{"table": "ice", "reason": "an Iceberg table"}],
        "unmarked": None,
    }
    text = "\n".join(plan_lines(planned))
    assert "event 7 of 1970-01-01 00:01:00 UTC" in text
    assert "orders: write ids 2, 3 are open" in text
    assert "ice: not in the database: an Iceberg table" in text
    assert "run the command again" in "\n".join(done_lines(planned))


def test_the_point_of_a_replica_has_its_event_and_write_ids(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 1, 1)])
    taker = PointTaker("shop", iter([0.0, 0.5, 1.0, 60.0, 60.5]).__next__)
    taker.take(2, 60, replica.context)
    assert taker.point == PointStatus("shop", 2, 60, {"orders": 1}, {"orders": (1,)})
    taker.take(3, 61, replica.context)
    assert taker.point.event_id == 2, "the last one took half a second"
    taker.take(3, 61, replica.context)
    assert taker.point.event_id == 3
    text = POINTS.text((taker.point,), 0.0)
    assert "1970-01-01 00:01:01 UTC" in text


@pytest.mark.parametrize(
    ("code", "reason"), [("gap", "the relay of its source has stopped there"), (None, "has no gap")]
)
def test_a_policy_that_follows_names_the_relay_that_has_stopped_at_a_gap(
    code: str | None, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise InvalidRequest("the policy has no gap: it is following its source")

    monkeypatch.setattr(requests, "ask_policy", refuse)
    config = config_of(
        {
            "state": {"dir": str(tmp_path)},
            "kafka": {"bootstrap": "nowhere:9092"},
            "sources": {"lake": {"metastore": ["thrift://nowhere:9083"], "topic": "lake"}},
            "targets": {"dr": {"metastore": ["thrift://nowhere:9083"]}},
            "policies": {"shop": {"source": "lake", "target": "dr", "database": "shop"}},
        }
    )
    status = daemon_status(sources=(SourceStatus("lake", relay_state="failed", code=code),))
    with (
        served(app_of(status=lambda: status), tmp_path),
        pytest.raises(InvalidRequest, match=reason) as refused,
    ):
        requests.cross_gap(config, "shop")
    assert ("tideline gap source lake" in str(refused.value)) is (code == "gap")
