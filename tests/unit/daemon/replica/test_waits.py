"""Waiting for a replica: it has applied the event, has not, does not exist yet, or is not configured."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from daemon.capability import Runtime
from daemon.consumer.projection import ProjectionStatus
from daemon.http.parameters import read_parameters
from daemon.replica import waits as waits_module
from daemon.replica.waits import ReplicaParameters, ReplicaReached, replica_kind
from daemon.waits.conditions import Unresolved, WaitKind
from state.errors import BadInput, MetastoreUnavailable, NotFound
from state.event_log.positions import Position
from tests.builders.daemon.assembly import config_of, runtime_of


@dataclass(eq=False)
class Replicas:
    """The replicas of a daemon with one policy."""

    position: Position | None = None
    loads: list[str] = field(default_factory=list)

    def status_of(self, policy: str) -> ProjectionStatus | None:
        assert policy == "shop"
        return ProjectionStatus(
            "replication:shop", "lake", "following", self.position, None, quarantined=("sales.broken",)
        )

    def list_loads(self, policy: str) -> list[str]:
        assert policy == "shop"
        return self.loads


@pytest.fixture
def runtime() -> Runtime:
    return runtime_of(
        config_of(
            {
                "sources": {
                    "lake": {"metastore": ["thrift://127.0.0.1:1"], "topic": "t", "read_roots": ["file:/w"]}
                },
                "targets": {"dr": {"metastore": ["thrift://127.0.0.1:1"]}},
                "kafka": {"bootstrap": "127.0.0.1:1"},
                "policies": {"shop": {"source": "lake", "target": "dr", "database": "sales"}},
            }
        )
    )


@pytest.fixture
def replicas() -> Replicas:
    return Replicas()


@pytest.fixture
def kind(runtime: Runtime, replicas: Replicas) -> WaitKind[ReplicaParameters]:
    return replica_kind(runtime, replicas, lambda policy: f"replication:{policy}")


def built(kind: WaitKind[ReplicaParameters], **given: str) -> ReplicaReached:
    condition = kind.build(read_parameters(kind.parameters, given))
    assert isinstance(condition, ReplicaReached)
    return condition


def test_an_event_is_waited_for_until_it_is_applied_completely(
    kind: WaitKind[ReplicaParameters], replicas: Replicas
) -> None:
    condition = built(kind, replica="Shop", event="7")
    assert condition.projections == ("replication:shop", "source:lake")
    assert not condition.check().is_true  # no replica yet
    for position in (Position(6), Position(7, 0, 2)):
        replicas.position = position
        assert (condition.check().is_true, condition.check().event_id) == (False, 6)
    replicas.position = Position(8)
    assert condition.check().is_true


def test_the_answer_names_the_tables_that_do_not_reflect_the_event(
    kind: WaitKind[ReplicaParameters], replicas: Replicas
) -> None:
    replicas.position, replicas.loads = Position(7), ["sales.new"]
    assert built(kind, replica="shop", event="7").check().left_out == ("sales.broken", "sales.new")


def test_without_an_event_the_newest_of_the_source_is_read_and_the_relay_woken(
    runtime: Runtime, kind: WaitKind[ReplicaParameters], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Source:
        def current_event_id(self) -> int:
            return 12

        def close(self) -> None:
            pass

    monkeypatch.setattr(waits_module, "source_client", lambda *_: Source())
    open_condition = kind.build(ReplicaParameters(replica="shop"))
    assert isinstance(open_condition, Unresolved)
    assert not runtime.nudges.of("lake").is_set()
    condition = open_condition.resolve()
    assert isinstance(condition, ReplicaReached)
    assert condition.event_id == 12
    assert runtime.nudges.of("lake").is_set()


def test_a_source_that_does_not_answer_is_an_error(kind: WaitKind[ReplicaParameters]) -> None:
    open_condition = kind.build(ReplicaParameters(replica="shop"))
    assert isinstance(open_condition, Unresolved)
    with pytest.raises(MetastoreUnavailable):
        open_condition.resolve()


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"replica": "none"}, NotFound),
        ({"replica": "none", "event": "1"}, NotFound),
        ({"replica": "shop", "event": "-1"}, BadInput),
        ({"replica": "shop", "event": "soon"}, BadInput),
        ({"replica": "shop", "event": "9" * 30}, BadInput),
    ],
)
def test_what_can_never_be_true_is_an_error(
    kind: WaitKind[ReplicaParameters], given: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error):
        kind.build(read_parameters(kind.parameters, given))
