"""A repair waits for the loads it requested, however late the daemon's status shows them, and verifies
afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.replica.verification import run
from daemon.replica.verification.run import (
    GRACE_S,
    TABLES_PER_REQUEST,
    Repair,
    _repair,
    find_repairable,
    request_loads,
)
from handlers.replication.verification.findings import Outcome, TableResult
from state.errors import InvalidRequest


def result(table: str, outcome: Outcome) -> TableResult:
    return TableResult(table=table, outcome=outcome)


@dataclass
class Daemon:
    """Shows a table as loading from ``begins_s`` to ``ends_s``, and as repaired from ``ends_s`` on; time
    passes in pauses."""

    begins_s: float
    ends_s: float
    repairs: bool = True
    now_s: float = 0.0
    verified_s: list[float] = field(default_factory=list)

    def loading(self) -> frozenset[str]:
        return frozenset({"t"} if self.begins_s <= self.now_s < self.ends_s else ())

    def verify(self, tables: Sequence[str]) -> list[TableResult]:
        self.verified_s.append(self.now_s)
        if self.loading():
            return [result(table, Outcome.NOT_FOLLOWED) for table in tables]
        repaired = self.repairs and self.now_s >= self.ends_s
        return [result(table, Outcome.EQUAL if repaired else Outcome.DIFFERS) for table in tables]

    def pause(self, pause_s: float) -> None:
        self.now_s += pause_s

    def repair(self) -> list[TableResult]:
        following: Any = self
        return Repair(following, self.verify, clock=lambda: self.now_s, pause=self.pause).finish(["t"])


def test_a_repair_ends_when_the_loaded_table_is_equal() -> None:
    daemon = Daemon(0.0, 100.0)
    assert daemon.repair() == [result("t", Outcome.EQUAL)]
    assert daemon.verified_s == [100.0], "verified once, after the load"


def test_a_load_that_the_status_shows_late_is_waited_for() -> None:
    daemon = Daemon(3.0, 50.0)
    assert daemon.repair() == [result("t", Outcome.EQUAL)]


def test_a_table_that_still_differs_after_its_load_is_reported() -> None:
    daemon = Daemon(0.0, 2.0, repairs=False)
    assert daemon.repair() == [result("t", Outcome.DIFFERS)]
    assert daemon.now_s <= GRACE_S + 1


def test_only_differing_tables_are_loaded_and_the_database_is_not() -> None:
    results = [result(str(outcome), outcome) for outcome in Outcome] + [result("", Outcome.DIFFERS)]
    assert find_repairable(results) == ["differs"]


def test_many_tables_are_requested_in_parts() -> None:
    asked: list[dict[str, Any]] = []

    def ask(request: dict[str, Any]) -> dict[str, Any]:
        asked.append(request)
        return {}

    names = [f"t{number}" for number in range(TABLES_PER_REQUEST + 1)]
    request_loads(names, ask)
    assert [len(each["tables"]) for each in asked] == [TABLES_PER_REQUEST, 1]
    assert {(each["do"], each["reason"]) for each in asked} == {("load", "repair")}


def test_a_repair_of_a_paused_policy_does_not_wait_for_loads_that_cannot_begin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paused = {"waits_for": "The policy is paused: run 'tideline resume shop'."}
    monkeypatch.setattr(run, "ask_policy", lambda *_: paused)
    opened: Any = SimpleNamespace(request=run.Request("shop"))
    with pytest.raises(InvalidRequest, match="cannot begin") as refused:
        _repair(SimpleNamespace(), opened, ["t"])  # type: ignore[arg-type]
    assert refused.value.hint == "The policy is paused: run 'tideline resume shop'. Then verify again."
