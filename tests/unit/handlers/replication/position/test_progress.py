"""Long batches: they send heartbeats, and record their position in steps."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from handlers.events import Event, TxnsOpened
from handlers.replication.position.progress import RECORD_EVENTS, RECORD_S, TARGET_LAG_S, TARGET_POSITION_S
from handlers.replication.projection import CHECK_AT_REST_S, ReplicationProjection
from handlers.replication.target.fencing import EPOCH
from state.errors import AmbiguousCall, Fenced, MetastoreUnavailable
from state.transactions.valid_write_ids import ValidWriteIds
from tests.builders.replication.fake_target import FakedReplica
from tests.builders.replication.replay_events import allocated, altered, committed, created, dropped, written


@dataclass
class Watched:
    """A projection of the replica, with the position that a kill after each event would leave."""

    replica: FakedReplica
    seconds_per_event: float = 0.0
    recorded: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.projection = ReplicationProjection(
            source_name="lake",
            context=self.replica.context,
            store=self.replica.store,
            clock=self.replica.clock,
            beat=self.beat,
        )
        self.projection.open()

    def beat(self) -> None:
        self.recorded.append(self.replica.stored_position())
        self.replica.clock.now_s += self.seconds_per_event


def test_every_applied_event_sends_a_heartbeat(replica: FakedReplica) -> None:
    watched = Watched(replica)
    watched.projection.apply([committed(number, txn_id=number) for number in range(1, 8)])
    assert len(watched.recorded) == 7


def test_a_long_batch_records_its_position_every_so_many_events(replica: FakedReplica) -> None:
    watched, last = Watched(replica), 2 * RECORD_EVENTS + RECORD_EVENTS // 2
    watched.projection.apply([created(number, f"table_{number}") for number in range(1, last + 1)])
    assert sorted(set(watched.recorded)) == [0, RECORD_EVENTS, 2 * RECORD_EVENTS]
    assert replica.stored_position() == last


def test_a_slow_batch_records_its_position_after_some_time(replica: FakedReplica) -> None:
    watched = Watched(replica, seconds_per_event=RECORD_S / 2)
    watched.projection.apply([committed(number, txn_id=number) for number in range(1, 8)])
    assert watched.recorded == [0, 0, 3, 3, 5, 5, 7]


def test_a_position_recorded_within_a_batch_is_never_inside_an_event(replica: FakedReplica) -> None:
    watched = Watched(replica, seconds_per_event=RECORD_S)
    file = replica.file()
    watched.projection.apply(
        [created(1), allocated(2, 1, 1), written(3, file, part=0, parts=2), committed(3, part=1, parts=2)]
    )
    assert watched.recorded == [0, 1, 2, 2]
    assert replica.stored_position() == 3


@pytest.fixture
def costs(replica: FakedReplica, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the checks of the target and the commits of the state from now on."""
    costs: Counter[str] = Counter()

    def count(owner: object, name: str) -> None:
        call = getattr(owner, name)

        def counted(*args: Any, **kwargs: Any) -> Any:
            costs[name] += 1
            return call(*args, **kwargs)

        monkeypatch.setattr(owner, name, counted)

    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.target.calls.clear()
    count(replica.target, "get_database")
    count(replica.store, "transaction")
    return costs


def of_others(event_id: int) -> list[Event]:
    """Return the events of one transaction in another database; it has three event ids."""
    return [
        TxnsOpened(event_id=event_id, time_s=0, kind="OPEN_TXN", first=event_id, last=event_id),
        replace(allocated(event_id + 1, event_id, 1), db="other"),
        replace(written(event_id + 2, txn_id=event_id, part=0, parts=2), db="other"),
        committed(event_id + 2, txn_id=event_id, part=1, parts=2),
    ]


def test_batches_without_an_effect_ask_nothing_of_the_target_and_commit_nothing(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    for number in range(100):
        replica.projection.apply(of_others(2 + 3 * number))
    assert (costs, replica.target.calls) == ({}, [])
    assert replica.projection.position.event_id == 301


def test_the_position_after_events_without_an_effect_is_recorded_after_some_time(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    for number in range(100):
        replica.projection.apply(of_others(2 + 3 * number))
        replica.clock.now_s += RECORD_S / 10
    assert replica.stored_position() > 301 - 3 * 11
    assert costs["transaction"] <= 10


def test_the_position_after_events_without_an_effect_is_recorded_at_rest(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    replica.projection.apply(of_others(2))
    replica.projection.settle()
    assert costs == {}
    replica.clock.now_s += RECORD_S
    replica.projection.settle()
    replica.projection.settle()
    assert (replica.stored_position(), costs) == (4, {"transaction": 1})


def test_the_position_after_events_without_an_effect_is_recorded_with_the_next_effect(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    replica.projection.apply(of_others(2))
    replica.projection.apply([altered(5)])
    assert replica.stored_position() == 5
    assert costs == {"get_database": 1, "transaction": 1}


def test_the_first_effect_long_after_events_without_one_costs_no_further_commit(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    """With hundreds of policies, others' events pass for many seconds before the next effect."""
    replica.projection.apply([created(1)])
    costs.clear()
    replica.projection.apply(of_others(2))
    replica.clock.now_s += 10 * RECORD_S
    replica.projection.apply(inserts(10, 7))
    assert costs["transaction"] == 2, "before the commit, and at the end of the batch"


def test_the_position_after_events_without_an_effect_is_recorded_when_the_policy_is_closed(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.apply(of_others(2))
    replica.projection.close()
    assert replica.stored_position() == 4


def test_events_without_an_effect_have_none_when_a_killed_run_repeats_them(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), allocated(2, 900, 1)])
    replica.projection.apply(of_others(3))
    projection = replica.restart()
    assert projection.position.event_id == 2
    projection.apply(of_others(3))
    projection.apply([committed(6, txn_id=900)])
    assert replica.target.calls.count("commit_replayed") == 1
    assert replica.stored_position() == 6


def test_the_end_of_a_transaction_of_the_policy_is_checked_although_it_names_no_database(
    replica: FakedReplica, costs: Counter[str]
) -> None:
    replica.projection.apply([allocated(2, 900, 1)])
    replica.projection.apply(of_others(3))
    costs.clear()
    replica.parameters[EPOCH] = "99-of-another-instance"
    with pytest.raises(Fenced):
        replica.projection.apply([committed(6, txn_id=900)])
    assert "commit_replayed" not in replica.target.calls


def test_another_instance_is_noticed_although_no_event_has_an_effect(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.parameters[EPOCH] = "99-of-another-instance"
    replica.projection.apply(of_others(2))
    replica.clock.now_s += CHECK_AT_REST_S
    with pytest.raises(Fenced):
        replica.projection.apply(of_others(5))


def on_target(replica: FakedReplica) -> str | None:
    return (replica.target.databases["shop_r"].parameters or {}).get("repl.last.id")


def test_the_position_on_the_target_is_raised_although_no_event_concerns_the_policy(
    replica: FakedReplica,
) -> None:
    """A busy source is never idle, and the position of a quiet database would become older than the source's
    log."""
    for event_id in range(1, 1_000):
        replica.projection.apply([committed(event_id, txn_id=event_id)])
        replica.clock.now_s += TARGET_POSITION_S / 100
    assert int(on_target(replica) or 0) > 1_000 - 110
    assert replica.target.calls.count("alter_database") <= 10, "cheaply"


def test_at_rest_the_position_on_the_target_is_raised_at_once_only_after_an_effect(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1), committed(2, txn_id=9)])
    replica.projection.settle()
    assert on_target(replica) == "2"
    for event_id in range(3, 50):
        replica.projection.apply([committed(event_id, txn_id=event_id)])
        replica.projection.settle()
    assert on_target(replica) == "2"
    replica.clock.now_s += TARGET_POSITION_S
    replica.projection.settle()
    assert on_target(replica) == "49"


def inserts(first: int, txn_id: int) -> list[Event]:
    """Return the events of one small transaction."""
    return [allocated(first, txn_id, txn_id), committed(first + 1, txn_id=txn_id)]


def test_within_a_stream_of_commits_the_targets_position_follows_within_a_second(
    replica: FakedReplica,
) -> None:
    watched = Watched(replica)
    lags: list[int] = []

    def beat() -> None:
        lags.append(watched.projection.position.event_id - int(on_target(replica) or 0))
        replica.clock.now_s += TARGET_LAG_S / 10

    watched.projection._replay._beat = beat
    watched.projection.apply(
        [created(1), *(event for txn in range(1, 51) for event in inserts(2 * txn, txn))]
    )
    assert max(lags) <= 12
    assert replica.target.calls.count("alter_database") <= 12


def test_many_commits_cost_two_calls_each_and_share_the_allocation_and_one_proof(
    replica: FakedReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    proofs: list[int] = []
    answer = replica.target.valid_write_ids

    def prove(tables: list[str]) -> list[ValidWriteIds]:
        proofs.append(len(tables))
        return answer(tables)

    monkeypatch.setattr(replica.target, "valid_write_ids", prove)
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.target.calls.clear()
    replica.projection.apply([event for txn in range(1, 51) for event in inserts(2 * txn, txn)])
    assert Counter(replica.target.calls) == {
        "open_replayed": 50,
        "allocate_many_replayed": 1,
        "commit_replayed": 50,
    }
    assert proofs == [1]


def test_the_targets_position_is_raised_before_a_name_is_used_again(replica: FakedReplica) -> None:
    """A policy that lost its state repeats the events since. It must not rename the new table instead of the
    old one."""
    replica.projection.apply([created(1)])
    replica.projection.apply([created(2, "other"), created(3, "third")])
    assert on_target(replica) == "1", "every table has its own name"
    replica.projection.apply([dropped(4, "other"), created(5, "other")])
    assert on_target(replica) == "4"


def test_a_commit_is_proven_before_its_table_is_renamed_or_dropped(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    replica.projection.apply([*inserts(2, 1), dropped(4), created(5), *inserts(6, 2)])
    assert len(replica.context.tables.unproven) == 0


def test_a_policy_that_is_closed_leaves_its_position_on_the_target(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), *inserts(2, 1)])
    replica.projection.close()
    assert on_target(replica) == "3"


def test_a_policy_that_has_failed_is_closed_without_a_further_write(replica: FakedReplica) -> None:
    replica.projection.apply([created(1)])
    replica.target.fails("commit_replayed", AmbiguousCall("sent, but no answer came"))
    with pytest.raises(AmbiguousCall):
        replica.projection.apply(inserts(2, 1))
    replica.target.calls.clear()
    replica.projection.close()
    assert replica.target.calls == []


def test_many_policies_without_events_write_their_positions_in_turns(replica: FakedReplica) -> None:
    for _ in range(499):
        replica.projection.loads.context.idle.join()
    replica.projection.apply([created(1)])
    replica.projection.settle()
    for event_id in range(2, 1_000):
        replica.projection.apply([committed(event_id, txn_id=event_id)])
        replica.clock.now_s += 1
    replica.projection.settle()
    writes = replica.target.calls.count("alter_database")
    assert writes <= 1 + 1 + 2, "the claim, the effect, and a write in 500 s each"
    assert int(on_target(replica) or 0) > 400, "but none is forgotten"


def let_others_have_turns(replica: FakedReplica, policies: int) -> None:
    """Let further policies of the target have a position to write."""
    for _ in range(policies):
        replica.projection.loads.context.idle.raises.join()


def test_many_policies_with_a_transaction_now_and_then_write_their_positions_in_turns(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    replica.projection.settle()
    let_others_have_turns(replica, 499)
    replica.target.calls.clear()
    for txn in range(1, 41):
        replica.clock.now_s += 25
        replica.projection.apply(inserts(2 * txn, txn))
        replica.projection.settle()
        assert replica.projection.position.event_id - int(on_target(replica) or 0) <= 2 * 250 / 25
    assert replica.target.calls.count("alter_database") == 40 * 25 / 250, "a write in 250 s each"


def test_a_busy_policy_does_not_wait_for_those_that_have_nothing_to_write(replica: FakedReplica) -> None:
    for _ in range(499):
        replica.projection.loads.context.idle.join()
    for txn in range(1, 11):
        replica.projection.apply([*inserts(2 * txn, txn)])
        replica.clock.now_s += TARGET_LAG_S
        replica.projection.settle()
        assert on_target(replica) == str(2 * txn + 1)


def test_a_policy_that_waits_for_its_turn_writes_its_position_when_it_is_closed_or_paused(
    replica: FakedReplica,
) -> None:
    replica.projection.apply([created(1)])
    let_others_have_turns(replica, 499)
    replica.projection.apply(inserts(2, 1))
    replica.projection.settle()
    assert on_target(replica) == "1"
    replica.projection.begin_pause()
    assert on_target(replica) == "3"
    replica.projection.pause.end()
    replica.projection.apply(inserts(4, 2))
    replica.projection.close()
    assert on_target(replica) == "5"


def test_a_policy_is_paused_although_its_target_does_not_answer(replica: FakedReplica) -> None:
    replica.projection.apply([created(1), *inserts(2, 1)])
    replica.target.fails("get_database", MetastoreUnavailable("down for maintenance"))
    assert replica.projection.begin_pause() == replica.projection.pause.since_s()


def test_a_policy_that_was_closed_or_has_nothing_to_write_delays_no_other_one(replica: FakedReplica) -> None:
    raises, began_s = replica.projection.loads.context.idle.raises, replica.clock.now_s
    raises.join()

    def is_turn_of_the_other() -> bool:
        return raises.may_take(began_s + 0.5, began_s, interval_s=0)

    assert not is_turn_of_the_other(), "both have a position to write"
    replica.projection.apply([created(1)])
    assert is_turn_of_the_other()
    replica.projection.apply(inserts(2, 1))
    assert not is_turn_of_the_other()
    replica.projection.close()
    assert is_turn_of_the_other()


def test_an_idle_source_costs_no_write_and_no_commit(replica: FakedReplica, costs: Counter[str]) -> None:
    for _ in range(100):
        replica.clock.now_s += TARGET_POSITION_S
        replica.projection.settle()
    assert "alter_database" not in replica.target.calls
    assert costs["transaction"] == 0
