"""Waiting until a replica has applied an event of its source (``daemon.waits.conditions``).

Without an event, it is the newest one of the source when the request arrives. So a client's earlier writes at
the source are on the target when its wait ends. That event comes from the metastore, because the one that the
daemon has read last may be older than the client's write. The relay then reads its log at once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Protocol

from annotated_types import Interval

from daemon.capability import Runtime
from daemon.consumer.projection import ProjectionStatus
from daemon.sources.connections import measured_metastore, source_client
from daemon.waits.conditions import Reached, Unresolved, WaitKind, WaitParameters
from state.bounds import NUMBER_MAX
from state.errors import NotFound


@dataclass(frozen=True, kw_only=True)
class ReplicaParameters(WaitParameters):
    """An event to wait for."""

    replica: str
    """A policy: wait until its replica has applied an event of the source."""
    event: Annotated[int, Interval(ge=0, le=NUMBER_MAX)] | None = None
    """The event; default: the newest one of the source."""


class FollowedReplicas(Protocol):
    """The replicas of a daemon, for any thread."""

    def status_of(self, policy: str) -> ProjectionStatus | None:
        """Return the status of a policy's projection; None if it does not run yet."""

    def list_loads(self, policy: str) -> Collection[str]:
        """Return the tables of a policy being loaded."""


@dataclass(frozen=True, slots=True)
class ReplicaReached:
    """The condition that a replica has applied an event (``daemon.waits.conditions.Condition``)."""

    replicas: FollowedReplicas
    policy: str
    projection: str
    source: str
    event_id: int

    @property
    def projections(self) -> Collection[str]:
        """The policy's projection, and the reader of its source: the replica also reaches events that do not
        concern it.
        """
        return self.projection, f"source:{self.source}"

    def check(self) -> Reached:
        """Return whether the replica has applied the event."""
        status = self.replicas.status_of(self.policy)
        if status is None or status.position is None:
            reason = "the replica does not exist yet"
            return Reached(is_true=False, wanted_event_id=self.event_id, reason=reason)
        applied = status.position.applied_event_id
        reached = Reached(
            is_true=applied >= self.event_id,
            source=status.source,
            event_id=applied,
            wanted_event_id=self.event_id,
        )
        if not reached.is_true:
            state = f"the replica has not applied the event yet; its policy is {status.state}"
            return replace(reached, reason=state)
        left_out = {*status.quarantined, *self.replicas.list_loads(self.policy)}
        return replace(reached, left_out=tuple(sorted(left_out)))


def replica_kind(
    runtime: Runtime, replicas: FollowedReplicas, name_of: Callable[[str], str]
) -> WaitKind[ReplicaParameters]:
    """Return the kind of conditions about replicas; ``name_of`` returns the projection of a policy."""

    def build(given: ReplicaParameters) -> ReplicaReached | Unresolved:
        policy = given.replica.lower()
        found = runtime.config.find_policy(policy)
        if found is None:
            raise NotFound("no such policy is configured", policy=policy[:200])
        condition = partial(ReplicaReached, replicas, policy, name_of(policy), found.source)
        if given.event is not None:
            return condition(given.event)
        return Unresolved(lambda: condition(read_newest(runtime, found.source)))

    return WaitKind(name="replica", parameters=ReplicaParameters, build=build)


def read_newest(runtime: Runtime, source: str) -> int:
    """Return the newest event of a source, and make its relay read at once; raise MetastoreUnavailable."""
    client = measured_metastore(runtime.calls, source)
    with closing(source_client(runtime.config.sources[source], client)) as metastore:
        newest = metastore.current_event_id()
    runtime.nudges.of(source).set()
    return newest
