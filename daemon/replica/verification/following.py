"""Reads a replica's position and the tables that it does not follow, for a verifier.

They come from the daemon or, if none runs, from its state files. The daemon's position is more recent than
``repl.last.id`` on the target, which follows within a second. If the daemon runs on another machine, or none
runs, the target's value counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from daemon.config.model import Config
from daemon.replica.loop import projection_name
from daemon.replica.policies import STATE_KIND
from daemon.replica.status.loads import LOADS
from daemon.replica.status.unreplicated import UNREPLICATED
from daemon.state_directory.directory import open_state, state_lock, state_path
from daemon.status.address import running_daemon
from daemon.status.client import fetch_status
from daemon.status.model import DaemonStatus, StatusSection
from handlers.metastore.client import Metastore
from handlers.replication.effects.functions import CODE as FUNCTION
from handlers.replication.tables.quarantine import Quarantine
from handlers.replication.tables.table_entries import UnreplicatedTables
from handlers.replication.tables.table_loads import TableLoads
from handlers.replication.target.target_position import LAST_ID
from state.errors import BadInput, ConfigError, NotFound, StateLocked, Transient
from state.event_log.positions import POSITION_KEY, Position


POLL_S: Final = 0.1
STALL_S: Final = 60.0
"""A replica whose position does not move for so long makes no progress."""
STOPPED_STALL_S: Final = 5.0
"""The same if no daemon of this machine follows the policy; one of another machine may."""


@dataclass(frozen=True, slots=True)
class KnownState:
    """The position of a policy at one moment, and the tables that it does not follow."""

    position: int = -1
    not_followed: Mapping[str, str] = field(default_factory=dict)
    loading: frozenset[str] = frozenset()
    """Tables that wait for a load, are loading, or catch up after it."""


@dataclass(slots=True)
class ReplicaFollowing:
    """The progress of one policy (``handlers.replication.verification.verifier.Following``)."""

    target: Metastore
    target_db: str
    state: Callable[[], KnownState]
    """Reads the facts of the daemon, or of the state that it left."""
    stall_s: float = STALL_S
    waiting: Callable[[int, int], None] = lambda _event_id, _position: None
    """Called while the verifier waits, with the awaited event id and the position."""
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    is_stopping: Callable[[], bool] = lambda: False
    is_live: bool = True
    """Whether a daemon of this machine follows the policy."""

    def position(self) -> int:
        """Return the position of the replica; raise NotFound if there is no replica yet."""
        position = max(self.state().position, self._on_target())
        if position < 0:
            raise NotFound(
                "the policy has no replica to verify: it was never bootstrapped",
                target_database=self.target_db,
                hint="Run 'tideline bootstrap POLICY'. A daemon does it for policies with 'bootstrap: auto'.",
            )
        return position

    def wait_for(self, event_id: int) -> bool:
        """Wait until the replica has applied an event; return False after ``stall_s`` without progress."""
        position = self.position()
        moved_s = self.clock()
        while position < event_id:
            self.waiting(event_id, position)
            if self.is_stopping() or self.clock() - moved_s >= self.stall_s:
                return False
            self.pause(POLL_S)
            newer = self.position()
            if newer != position:
                position, moved_s = newer, self.clock()
        return True

    def not_followed(self) -> Mapping[str, str]:
        """Return the reason for each table that is not followed, by name; an omitted function has the name
        ``NAME()``.
        """
        return self.state().not_followed

    def loading(self) -> frozenset[str]:
        """Return the tables whose load is not complete."""
        return self.state().loading

    def _on_target(self) -> int:
        try:
            parameters = self.target.get_database(self.target_db).parameters or {}
        except NotFound:
            return -1
        text = parameters.get(LAST_ID, "")
        return int(text) if text.isdecimal() else -1


@contextmanager
def open_following(
    config: Config,
    policy: str,
    target: Metastore,
    status: Callable[[], DaemonStatus] | None,
    *,
    waiting: Callable[[int, int], None],
) -> Iterator[ReplicaFollowing]:
    """Provide the progress of a policy from the ``status`` of its daemon. If none runs, locks the state
    directory, so that no daemon starts within the context.

    A daemon that runs but does not answer counts as a daemon on another machine: only the target's position
    is available.
    """
    db = config.policy(policy).replica_database
    if status is not None:
        yield ReplicaFollowing(target, db, lambda: known_state(status(), policy), waiting=waiting)
        return
    try:
        with state_lock(config.state.dir):
            known = read_state(config, policy)
            yield ReplicaFollowing(target, db, lambda: known, STOPPED_STALL_S, waiting, is_live=False)
    except StateLocked:
        yield ReplicaFollowing(target, db, KnownState, waiting=waiting, is_live=False)


def find_status(config: Config, sections: Sequence[StatusSection[Any]]) -> Callable[[], DaemonStatus] | None:
    """Return a function that reads the configured daemon's status; None if no daemon answers."""
    address = running_daemon(config.state.dir)
    if address is None:
        return None
    try:
        fetch_status(address, sections)
    except (Transient, BadInput, ConfigError):
        return None  # a killed daemon leaves its address behind
    return partial(fetch_status, address, sections)


def known_state(status: DaemonStatus, policy: str) -> KnownState:
    """Return the position and tables of a policy from the daemon's status."""
    name = projection_name(policy)
    view = next((each for each in status.projections if each.name == name), None)
    if view is None:
        return KnownState()
    loads = {_table_of(each.table): each for each in LOADS.of(status) if each.policy == policy}
    reasons = {table: f"{load.state} ({load.reason})" for table, load in loads.items()}
    reasons |= {_table_of(each): "quarantined" for each in view.quarantined}
    reasons |= {
        _table_of(each.table): f"quarantined at event {each.event_id}: {each.reason}"
        for each in view.failures
    }
    reasons |= {
        _table_of(each.name): each.reason
        for status_of in UNREPLICATED.of(status)
        if status_of.policy == policy
        for each in status_of.listed
        if each.code == FUNCTION
    }
    return KnownState(-1 if view.event_id is None else view.event_id, reasons, frozenset(loads))


def _table_of(text: str) -> str:
    """Return the table's name without its database."""
    return text.rpartition(".")[2]


def read_state(config: Config, policy: str) -> KnownState:
    """Return the position and tables of a policy from its state file; empty if there is no file."""
    if not state_path(config.state.dir, STATE_KIND, policy).exists():
        return KnownState()
    quarantine, loads, unreplicated = Quarantine(), TableLoads(), UnreplicatedTables()
    store = open_state(config.state.dir, STATE_KIND, policy)
    try:
        quarantine.load(store)
        loads.load(store)
        unreplicated.load(store)
        stored = store.get(POSITION_KEY)
    finally:
        store.close()
    loading = frozenset(each.table for each in loads.waiting())
    reasons = {each.table: f"waits for its load ({each.reason})" for each in loads.waiting()}
    reasons |= {
        each.table: f"quarantined at event {each.event_id}: {each.reason}" for each in quarantine.entries()
    }
    reasons |= {each.table: each.reason for each in unreplicated.entries() if each.code == FUNCTION}
    return KnownState(-1 if stored is None else Position.from_bytes(stored).event_id, reasons, loading)
