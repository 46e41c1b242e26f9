"""A verification from the command line: what is verified, and how differing tables are repaired with and
without a daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from daemon.replica.verification import run as run_module
from daemon.replica.verification.run import Request, run_verification
from handlers.replication.verification.findings import Outcome, TableResult
from state.errors import NotFound


class Replica:
    """A policy with tables, some of which differ until their load was requested."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state_dir: Path) -> None:
        self.differing = {"b"}
        self.requests: list[dict[str, Any]] = []
        self.verified: list[str] = []
        self.lines: list[str] = []
        self.rows: list[str] = []
        self.state_dir = state_dir
        self.following = SimpleNamespace(is_live=False, position=lambda: 7, waiting=None)
        named = {"lake": SimpleNamespace(metastore="thrift://nowhere:1")}
        self.config: Any = SimpleNamespace(
            sources=named,
            targets=named,
            policy=lambda _: SimpleNamespace(source="lake", target="lake"),
            state=SimpleNamespace(dir=state_dir),
        )
        for name, replacement in (
            ("Metastore", self.open_metastore),
            ("open_following", self.open_following),
            ("open_verifier", self.open_verifier),
            ("open_row_comparison", self.open_row_comparison),
            ("ask_policy", self.ask),
            ("Repair", self.repair),
        ):
            monkeypatch.setattr(run_module, name, replacement)

    @contextmanager
    def open_metastore(self, _settings: object) -> Iterator[object]:
        yield object()

    @contextmanager
    def open_following(self, *_: object, waiting: object) -> Iterator[Any]:
        self.following.waiting = waiting
        yield self.following

    @contextmanager
    def open_row_comparison(self, _spark: object) -> Iterator[object]:
        yield self.rows.append

    @contextmanager
    def open_verifier(self, *_: object, compare_rows: Any, checksums: bool) -> Iterator[Any]:
        assert not checksums
        if compare_rows is not None:
            compare_rows("rows are compared")
        yield self

    def table_names(self) -> list[str]:
        return ["a", "b", "c"]

    def verify_database(self) -> TableResult:
        return TableResult(table="", outcome=Outcome.EQUAL)

    def verify_table(self, name: str) -> TableResult:
        self.verified.append(name)
        outcome = Outcome.DIFFERS if name in self.differing else Outcome.EQUAL
        return TableResult(table=name, outcome=outcome)

    def ask(self, _config: object, policy: str, request: dict[str, Any]) -> dict[str, Any]:
        assert policy == "sales"
        self.requests.append(request)
        self.differing.clear()
        return {}

    def repair(self, following: object, verify: Any, _show: object) -> Any:
        assert following is self.following
        return SimpleNamespace(finish=verify)

    def run(self, *tables: str, **options: Any) -> tuple[list[TableResult], list[str]]:
        return run_verification(self.config, Request("sales", tables, **options), None, self.lines.append)


@pytest.fixture
def replica(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Replica:
    return Replica(monkeypatch, tmp_path)


def outcomes(results: Sequence[TableResult]) -> dict[str, Outcome]:
    return {result.table: result.outcome for result in results}


def test_all_tables_and_the_database_are_verified_with_a_line_for_each(replica: Replica) -> None:
    results, repaired = replica.run()
    assert outcomes(results) == {
        "": Outcome.EQUAL,
        "a": Outcome.EQUAL,
        "b": Outcome.DIFFERS,
        "c": Outcome.EQUAL,
    }
    assert (repaired, replica.requests) == ([], [])
    assert len(replica.lines) == 3
    replica.following.waiting(9000, 7)
    assert replica.lines[-1] == "waiting for the replica: event 9000, it is at 7"


def test_only_the_named_tables_are_verified_by_either_form_of_their_names(replica: Replica) -> None:
    results, _ = replica.run("Sales.B", "c")
    assert list(outcomes(results)) == ["b", "c"]


def test_a_table_that_neither_side_has_is_refused(replica: Replica) -> None:
    with pytest.raises(NotFound) as refusal:
        replica.run("a", "x")
    assert refusal.value.context["tables"] == ["x"]
    assert replica.verified == []


def test_rows_are_compared_by_spark_if_requested(replica: Replica) -> None:
    spark: Any = object()
    replica.run("a", spark=spark)
    assert replica.rows == ["rows are compared"]
    assert replica.lines[0] == "starting Spark"


def test_the_running_daemon_loads_differing_tables_which_are_verified_again(replica: Replica) -> None:
    replica.following.is_live = True
    results, repaired = replica.run(repair=True)
    assert repaired == ["b"]
    assert replica.requests == [{"do": "load", "tables": ["b"], "reason": "repair"}]
    assert replica.verified == ["a", "b", "c", "b"]
    assert outcomes(results) == dict.fromkeys(["", "a", "b", "c"], Outcome.EQUAL)


def test_without_a_daemon_the_loads_are_recorded_in_its_state(
    replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    (replica.state_dir / "sales.db").touch()
    monkeypatch.setattr(run_module, "state_path", lambda folder, _kind, policy: Path(folder) / f"{policy}.db")
    results, repaired = replica.run(repair=True)
    assert (repaired, [request["tables"] for request in replica.requests]) == (["b"], [["b"]])
    assert replica.verified == ["a", "b", "c", "b"]
    assert outcomes(results)["b"] is Outcome.EQUAL


def test_a_policy_without_state_on_this_machine_is_not_repaired(replica: Replica) -> None:
    with pytest.raises(NotFound, match="no state here") as refusal:
        replica.run(repair=True)
    assert refusal.value.hint
    assert replica.requests == []


def test_nothing_is_requested_if_no_table_differs(replica: Replica) -> None:
    replica.differing.clear()
    _, repaired = replica.run(repair=True)
    assert (repaired, replica.requests) == ([], [])
