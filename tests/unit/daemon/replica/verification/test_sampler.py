"""The sampler verifies every table in turn at a limited rate, and keeps what it found until a later
verification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from daemon.replica.verification.sampler import Ledger, Sampler, Schedule
from daemon.replica.verification.status import VERIFICATION
from daemon.status.model import ProjectionView
from handlers.replication.verification.findings import Difference, Outcome, TableResult
from tests.builders.daemon.assembly import config_of, runtime_of
from tests.builders.daemon.loops import daemon_status


DIFFERENCE = Difference("parameter", "a", "1", "2")
DIFFERS = TableResult(
    table="t", outcome=Outcome.DIFFERS, event_id=7, differences=(DIFFERENCE,), difference_count=1
)


def test_a_round_takes_every_table_once_in_the_order_of_the_shuffle() -> None:
    schedule = Schedule(1.0, 1.0, list.reverse)
    assert schedule.is_round_over
    schedule.start_round(["a", "b", "c"])
    assert [schedule.take() for _ in range(4)] == ["c", "b", "a", None]
    assert schedule.is_round_over


@given(st.floats(0.01, 3600, allow_nan=False), st.floats(0.001, 60, allow_nan=False), st.integers(0, 100_000))
def test_no_more_than_the_share_of_the_tables_is_verified_in_an_hour(
    interval_s: float, share: float, tables: int
) -> None:
    pause_s = Schedule(interval_s, share, list.reverse).pause_s(tables)
    assert pause_s >= interval_s
    assert 3600 / pause_s <= max(1, tables) * share * 1.000001


@pytest.mark.parametrize(
    ("state", "is_verified"),
    [
        ("following", True),
        ("paused", True),
        ("not-bootstrapped", False),
        ("promoted", False),
        ("retired", False),
    ],
)
def test_a_policy_without_a_replica_of_its_source_is_not_verified(state: str, *, is_verified: bool) -> None:
    policy: dict[str, object] = {"source": "lake", "target": "dr", "database": "shop"}
    ends = {
        "sources": {"lake": {"metastore": ["thrift://a:1"], "topic": "t"}},
        "targets": {"dr": {"metastore": ["thrift://b:1"]}},
    }
    runtime = runtime_of(config_of({**ends, "kafka": {"bootstrap": "c:1"}, "policies": {"shop": policy}}))
    view = ProjectionView("replication:shop", "lake", state)
    unused: Any = None
    sampler = Sampler(replace(runtime, status=lambda: daemon_status(projections=(view,))), "shop", unused)
    assert sampler._has_replica() is is_verified


def ledger(now_s: list[float]) -> Ledger:
    return Ledger("p", "shop", clock=lambda: now_s[0])


def test_the_oldest_verification_counts_tables_that_were_never_verified() -> None:
    now_s = [100.0]
    found = ledger(now_s)
    assert found.status().oldest_s is None
    found.see(["t", "u"])
    now_s[0] = 130.0
    found.add(TableResult(table="t", outcome=Outcome.EQUAL))
    assert found.status().oldest_s == 30.0
    found.see(["t"])
    assert found.status().oldest_s == 0.0


def test_a_difference_stays_until_the_table_is_equal_or_gone() -> None:
    found = ledger([100.0])
    found.see(["t"])
    found.add(DIFFERS)
    found.add(replace(DIFFERS, outcome=Outcome.BUSY))
    found.add(replace(DIFFERS, outcome=Outcome.FAILED))
    status = found.status()
    assert (status.verified, status.busy, status.differing) == (1, 1, 1)
    (problem,) = VERIFICATION.problems((status,))
    assert problem.startswith("shop.t: the replica of policy p differs as of event 7: parameter a: '1' at")
    assert problem.endswith("run 'tideline verify p t --repair'")
    found.add(TableResult(table="t", outcome=Outcome.EQUAL))
    assert found.status().differing == 0
    found.add(DIFFERS)
    found.see([])
    assert found.status().tables == ()


def test_the_status_is_printed_and_measured() -> None:
    found = ledger([100.0])
    found.see(["t"])
    found.add(DIFFERS)
    status = found.status()
    assert VERIFICATION.text((status,), 0.0).splitlines() == [
        "VERIFICATION  VERIFIED  BUSY  DIFFERING  OLDEST",
        "p                    1     0          1     0 s",
    ]
    values = {
        sample.name: sample.value for family in VERIFICATION.families((status,)) for sample in family.samples
    }
    assert values["tideline_verified_tables_total"] == 1
    assert values["tideline_verify_differing_tables"] == 1
    assert values["tideline_verify_oldest_seconds"] == 0
