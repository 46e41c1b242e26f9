"""The report of a verification, and where a verifier learns how far a replica is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from daemon.replica.policies import STATE_KIND
from daemon.replica.status.loads import LoadStatus
from daemon.replica.status.unreplicated import UnreplicatedObject, UnreplicatedStatus
from daemon.replica.verification.following import (
    KnownState,
    ReplicaFollowing,
    known_state,
    read_state,
)
from daemon.replica.verification.report import VerificationReport, make_report, report_text
from daemon.state_directory.directory import open_state
from daemon.status.model import ProjectionView
from handlers.failures import TableFailure
from handlers.replication.tables.quarantine import Quarantine
from handlers.replication.tables.table_entries import UnreplicatedTable, UnreplicatedTables
from handlers.replication.tables.table_loads import TableLoad, TableLoads
from handlers.replication.verification.findings import Difference, Outcome, TableResult
from handlers.structs.objects import Database
from state.errors import MalformedEvent, NotFound
from state.event_log.positions import POSITION_KEY, Position
from tests.builders.daemon.forms import check_form
from tests.builders.daemon.loops import daemon_status


EQUAL = TableResult(
    table="a", outcome=Outcome.EQUAL, event_id=7, files=3, size_bytes=2048, not_compared=(("files", 2),)
)
DIFFERS = TableResult(
    table="b",
    outcome=Outcome.DIFFERS,
    event_id=7,
    differences=(Difference("file", "x", "1 bytes", None),),
    difference_count=5,
)
BUSY = TableResult(table="c", outcome=Outcome.BUSY, reason="events concern the table")


def test_the_report_is_aligned_text_with_every_difference() -> None:
    lines = report_text(make_report("shop", [EQUAL, DIFFERS, BUSY])).splitlines()
    assert lines[0] == "table  outcome  event  differences  partitions  files    bytes  rows  not compared"
    assert lines[1].endswith("3  2.0 KiB     -  files 2")
    assert "  file x: '1 bytes' at the source, missing on the target" in lines
    assert "  and 4 more" in lines
    assert "c: events concern the table" in lines
    assert lines[-1] == "policy shop: 1 equal, 1 differs, 1 busy"


def test_only_equal_tables_make_a_replica_equal() -> None:
    assert make_report("shop", [EQUAL])["equal"]
    for other in (DIFFERS, BUSY, TableResult(table="d", outcome=Outcome.NOT_FOLLOWED)):
        assert not make_report("shop", [EQUAL, other])["equal"]


def test_the_report_as_json_has_typed_differences() -> None:
    values = make_report("shop", [EQUAL, DIFFERS])
    assert (values["equal"], values["counts"]["differs"]) == (False, 1)
    assert values["tables"][0]["not_compared"] == {"files": 2}
    assert values["tables"][1]["differences"] == [
        {"kind": "file", "key": "x", "source": "1 bytes", "target": None}
    ]
    check_form(TypeAdapter(VerificationReport), orjson.dumps(values))


def test_the_report_of_some_tables_counts_the_others() -> None:
    text = report_text(make_report("shop", [EQUAL, EQUAL, DIFFERS], ["b"], [DIFFERS]))
    assert text.splitlines()[-1] == "policy shop: 2 equal, 1 differs; loads requested: b; 2 tables not listed"
    assert "\na " not in text


class FakeTarget:
    """A target at ``repl.last.id``; None if there is no database."""

    def __init__(self, last_id: str | None) -> None:
        self.last_id = last_id

    def get_database(self, name: str) -> Database:
        if self.last_id is None:
            raise NotFound("no such database")
        return Database(name=name, parameters={"repl.last.id": self.last_id})


def following(
    last_id: str | None, state: Callable[[], KnownState] = KnownState, stall_s: float = 10.0
) -> ReplicaFollowing:
    target: Any = FakeTarget(last_id)
    clock = iter(range(1_000))
    return ReplicaFollowing(
        target, "shop_r", state, stall_s, clock=lambda: float(next(clock)), pause=lambda _: None
    )


def test_the_position_is_the_daemons_or_the_targets_whichever_is_further() -> None:
    assert following("5", lambda: KnownState(9)).position() == 9
    assert following("12", lambda: KnownState(9)).position() == 12


def test_a_policy_without_replica_is_refused_instead_of_compared() -> None:
    for last_id in (None, ""):
        with pytest.raises(NotFound, match="never bootstrapped"):
            following(last_id).position()


def test_waiting_ends_with_the_event_or_without_progress() -> None:
    positions = iter([3, 3, 4, 5, 6])
    assert following("1", lambda: KnownState(next(positions))).wait_for(6)
    assert not following("1").wait_for(2)


def test_slow_progress_is_waited_for() -> None:
    positions = iter(position for position in range(50) for _ in range(3))
    assert following("0", lambda: KnownState(next(positions)), stall_s=8.0).wait_for(40)


def test_quarantined_and_loading_tables_come_from_the_daemons_status() -> None:
    failure = TableFailure("shop.a", 3, None, "unsupported", "no rows")
    load = LoadStatus("p", "shop.b", "waiting", "repair", 7)
    view = ProjectionView(
        "replication:p",
        "lake",
        "following",
        event_id=9,
        quarantined=("shop.a",),
        failures=(failure,),
    )
    function = UnreplicatedObject("shop.f()", "function", "no directory", 2, on_target=False)
    table = UnreplicatedObject("shop.t", "iceberg", "rows elsewhere", 2, on_target=False)
    left_out = UnreplicatedStatus("p", {"function": 1, "iceberg": 1}, (function, table))
    status = daemon_status(projections=(view,), sections={"loads": (load,), "unreplicated": (left_out,)})
    known = known_state(status, "p")
    assert known_state(status, "other") == KnownState()
    assert known.position == 9
    assert known.not_followed == {
        "a": "quarantined at event 3: no rows",
        "b": "waiting (repair)",
        "f()": "no directory",
    }
    assert known.loading == {"b"}


def test_without_a_daemon_they_come_from_the_state_that_it_left(tmp_path: Path) -> None:
    config: Any = type("Config", (), {"state": type("State", (), {"dir": tmp_path})})
    assert read_state(config, "p") == KnownState()
    assert list(tmp_path.iterdir()) == [], "nothing is created"
    quarantine, loads, unreplicated = Quarantine(), TableLoads(), UnreplicatedTables()
    unreplicated.put(UnreplicatedTable("f()", 2, "function", "no directory"))
    quarantine.add("a", 3, MalformedEvent("broken"))
    loads.put(TableLoad("b", "l1", "repair", 1))
    store = open_state(tmp_path, STATE_KIND, "p")
    with store.transaction() as txn:
        quarantine.flush(txn)
        loads.flush(txn)
        unreplicated.flush(txn)
        txn.put(POSITION_KEY, Position(42).to_bytes())
    store.close()
    known = read_state(config, "p")
    assert known.position == 42
    assert known.not_followed["f()"] == "no directory"
    assert known.not_followed["b"] == "waits for its load (repair)"
    assert known.not_followed["a"].startswith("quarantined at event 3")


@pytest.mark.parametrize("outcome", list(Outcome))
def test_every_outcome_has_a_count(outcome: Outcome) -> None:
    counts = make_report("shop", [TableResult(table="t", outcome=outcome)])["counts"]
    assert counts[str(outcome)] == 1
