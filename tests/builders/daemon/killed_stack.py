"""A stack of one test's own, whose components are killed while a daemon runs on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from daemon.status.client import load_status
from daemon.status.model import DaemonStatus
from dev.stack import cli, preflight
from dev.stack.cluster import Stack
from dev.stack.errors import StackError
from dev.stack.hive.settings import ClusterSettings, Database
from state.errors import TidelineError
from tests.builders.daemon.assembly import SECTIONS
from tests.builders.daemon.loops import DEADLINE_S, first_that
from tests.builders.daemon.running_daemon import RunningDaemon, configured


VICTIMS: Final = ("daemon", "source metastore", "target metastore", "broker")


def wait_until(condition: Callable[[], object], deadline_s: float = DEADLINE_S) -> None:
    """Wait until ``condition`` holds, without keeping the daemon busy with questions; fail after
    ``deadline_s``."""
    first_that(bool, condition, deadline_s=deadline_s)


def as_uri(place: str) -> str:
    """Return a directory of ``Endpoints`` as a URI."""
    return place if "://" in place else f"file:{place}"


@contextmanager
def killable_stack(
    directory: Path,
    source: ClusterSettings | None = None,
    target: ClusterSettings | None = None,
    source_database: Database | None = None,
) -> Iterator[Stack]:
    """Run a stack with SQL engines during the block."""
    preflight.check_all(directory)
    cli.fetch_all()
    stack = Stack(directory, source, target, databases=(source_database, None))
    stack.start(engines=True)
    try:
        yield stack
    finally:
        stack.stop()


@dataclass
class KilledReplica:
    """A daemon that bootstraps and follows one database of a stack, while it and the components are
    killed."""

    stack: Stack
    db: str
    daemon: RunningDaemon
    kills: dict[str, int] = field(default_factory=dict)
    relay: RunningDaemon | None = None
    """The process of the relay, unless the daemon relays."""

    @staticmethod
    def of(
        stack: Stack, db: str, directory: Path, *, policy: dict[str, Any] | None = None, **loads: Any
    ) -> KilledReplica:
        """Configure the daemon with these settings of its policy; ``loads`` are settings of the section
        ``bootstrap``."""
        daemon = configured(
            directory,
            stack.endpoints(),
            topic=db,
            database=db,
            policy={"bootstrap": "auto", **(policy or {})},
            sections={"bootstrap": loads},
        )
        return KilledReplica(stack, db, daemon)

    @staticmethod
    def with_relay(stack: Stack, db: str, directory: Path, **relay: Any) -> KilledReplica:
        """Configure a daemon and the relay as separate processes; ``relay`` are settings of the latter."""
        processes = {}
        for verb, enabled in (("relay", True), ("run", False)):
            own = directory / verb
            own.mkdir()
            processes[verb] = configured(
                own,
                stack.endpoints(),
                topic=db,
                database=db,
                relay={"enabled": enabled, **relay},
                policy={"bootstrap": "auto"},
            )
            processes[verb].verb = verb
        return KilledReplica(stack, db, processes["run"], relay=processes["relay"])

    @property
    def victims(self) -> Sequence[str]:
        """The components that can be killed."""
        return VICTIMS if self.relay is None else (*VICTIMS, "relay")

    @property
    def target_db(self) -> str:
        return f"{self.db}_r"

    def kill(self, victim: str) -> None:
        """Kill one of ``victims``."""
        self.kills[victim] = self.kills.get(victim, 0) + 1
        self._find(victim).kill()

    def start(self, victim: str) -> None:
        """Start it again, and wait until it serves."""
        self._find(victim).start()

    def _find(self, victim: str) -> Any:
        return {
            "daemon": self.daemon,
            "relay": self.relay,
            "source metastore": self.stack.source.metastore,
            "target metastore": self.stack.target.metastore,
            "broker": self.stack.kafka,
        }[victim]

    def write(self, *statements: str) -> None:
        """Run statements at the source; those that fail because its metastore was just killed are
        repeated."""

        def run() -> bool:
            try:
                with self.stack.source.sql() as sql:
                    while left:
                        sql.run(left[0].format(db=self.db))
                        left.pop(0)
            except StackError:
                return False
            return True

        left = list(statements)
        wait_until(run)

    def loads_left(self) -> list[str] | None:
        """Return the tables that are not loaded yet; None if the daemon does not follow its source now."""
        try:
            status = load_status(self.daemon.state_dir, SECTIONS)
        except TidelineError:
            return None
        if status.state != "running" or status.projections[0].state != "following":
            return None
        loads: Any = status.sections["loads"]
        return [load.table for load in loads]

    def settle(self) -> None:
        """Wait until everything that the source has logged is applied, and require that no table is
        quarantined."""
        view = self.daemon.applied(self.stack.source.metastore.last_event_id())
        assert not view.failures, view.failures
        wait_until(lambda: self.loads_left() == [])
        now_s = time.time()
        wait_until(lambda: self._has_compared_external_tables_since(now_s))

    def _has_compared_external_tables_since(self, time_s: float) -> bool:
        """Whether a cycle over the external tables that began later is complete, if the policy has any."""
        sections: Any = load_status(self.daemon.state_dir, SECTIONS).sections
        (external,) = sections["external"]
        return external.state == "no-base" or (external.complete_s or 0) > time_s


def is_in_trouble(status: DaemonStatus) -> bool:
    """Whether the policy or one of its loads has met the outage."""
    loads: tuple[object, ...] = status.sections["loads"]  # type: ignore[assignment]
    return status.projections[0].code is not None or any(getattr(load, "problem", None) for load in loads)
