"""The replicas of a daemon: the configured ones, and those of databases that it finds while it runs.

At start, the replicas of a pattern (section ``policy_patterns``) that have a state file continue at once,
without a query to the source, because even a database that the source has dropped still has to be dropped on
the target. For the others, the daemon lists the source's databases at intervals. It finds a new database some
seconds after its creation; the bootstrap then loads the rows written in between.

With several daemons, each adds only its own policies. A policy that moves to another daemon continues from
the facts on its target, as after the loss of the state file. Its former daemon sets the state file aside, so
that a policy that comes back does not open an old state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

import structlog

from daemon.capability import Runtime
from daemon.config.model import Config
from daemon.consumer.projection import ProjectionStatus
from daemon.process.loops.heartbeat import Heartbeat, wait
from daemon.process.loops.loop import Job
from daemon.replica.external.policy_cycles import STATE_KIND as EXTERNAL_KIND
from daemon.replica.known_tables import KnownTables, LastNames
from daemon.replica.loading.bootstrap_turns import BootstrapTurns
from daemon.replica.loop import ReplicaPart, build_replica
from daemon.replica.metrics import ReplicaMetrics
from daemon.replica.policies import STATE_KIND
from daemon.replica.settings import BOOTSTRAP
from daemon.replica.shared import SharedResources
from daemon.replica.status.division import PoliciesOfDaemon
from daemon.replica.status.policy_sections import LOADS_OF_POLICY, PolicySection
from daemon.replica.verification.sampler import Ledger, build_sampler
from daemon.replica.verification.status import SamplerStatus
from daemon.state_directory.directory import set_aside_state, state_path
from daemon.status.model import ENDED
from daemon.status.reporter import ProjectionPart, StatusContext
from state.errors import ConfigError


log = structlog.get_logger(__name__)


class Replicas:
    """The replicas of one daemon. Only one thread at a time may call ``add``; reading is thread-safe."""

    def __init__(self, runtime: Runtime, metrics: ReplicaMetrics) -> None:
        self._runtime = runtime
        self._metrics = metrics
        self.shared = SharedResources.of(runtime.config, runtime.calls)
        self._bootstraps = BootstrapTurns(BOOTSTRAP.of(runtime.config).policies_at_once)
        self._targets: dict[tuple[str, str], str] = {}
        # Each change replaces a whole value, because HTTP threads iterate over them.
        self._on_target: dict[str, tuple[str, ...]] = {}
        self.all: tuple[ReplicaPart, ...] = ()
        self._elsewhere: frozenset[str] = frozenset()
        """The policies that other daemons follow."""
        self._by_policy: dict[str, ReplicaPart] = {}
        self.ledgers: Mapping[str, Ledger] = {}
        """The outcomes of verification by policy."""
        self._last_names = LastNames()

    def add(self, name: str, start: Callable[[Job], None]) -> None:
        """Add the replica of policy ``name``, and pass its loops to ``start``. Does nothing if the replica
        exists or another daemon follows the policy.

        Raises ConfigError if another policy has the same target database.
        """
        policy = self._runtime.config.policy(name)
        target = (policy.target, policy.replica_database)
        other = self._targets.setdefault(target, name)
        if other != name:
            raise ConfigError(
                f"is already the target of policy {other!r}",
                hint="Exclude the database from one of the two policies, or give it another name on the "
                "target.",
                key=f"{name}: target database",
                value=policy.replica_database,
            )
        if not self._runtime.config.daemons.owns(name):
            self._leave_to_owner(name)
            return
        projections = {replica.part.name for replica in self.all}
        replica = build_replica(self._runtime, name, self._metrics, self._bootstraps, self.shared)
        if replica.part.name in projections:
            return
        start(replica.job)
        self.all = (*self.all, replica)
        self._by_policy[name] = replica
        self._on_target[policy.target] = (*self._on_target.get(policy.target, ()), name)
        if policy.verification.tables_per_hour_share:
            job, ledger = build_sampler(self._runtime, name, self.shared)
            start(job)
            self.ledgers = {**self.ledgers, name: ledger}

    def _leave_to_owner(self, name: str) -> None:
        self._elsewhere |= {name}
        for kind in (STATE_KIND, EXTERNAL_KIND):
            if set_aside_state(self._runtime.config.state.dir, kind, name):
                owner = self._runtime.config.daemons.owner_of(name)
                log.info(
                    "another daemon follows the policy; its state is set aside", policy=name, owner=owner
                )

    def division(self) -> tuple[PoliciesOfDaemon, ...]:
        """Return the daemons with the policies that each follows, out of those that this daemon knows."""
        daemons = self._runtime.config.daemons
        policies: dict[int, list[str]] = {ordinal: [] for ordinal in range(daemons.count)}
        for name in sorted({*self._by_policy, *self._elsewhere}):
            policies[daemons.owner_of(name)].append(name)
        return tuple(
            PoliciesOfDaemon(ordinal, ordinal == daemons.ordinal, tuple(names))
            for ordinal, names in policies.items()
        )

    def on_target(self, target: str) -> tuple[str, ...]:
        """Return the names of the policies that replicate to ``target``, except those that have ended."""
        return tuple(name for name in self._on_target.get(target, ()) if not self.has_ended(name))

    def has_ended(self, policy: str) -> bool:
        """Whether an operator has ended the replication of a policy, so that its target no longer belongs to
        Tideline.
        """
        status = self.status_of(policy)
        return status is not None and status.state in ENDED

    def projections(self) -> tuple[ProjectionPart, ...]:
        """Return the projections of all replicas, each with a loop of the same name."""
        return tuple(replica.part for replica in self.all)

    def names(self) -> list[str]:
        """Return the names of the policies, sorted."""
        return sorted(self._by_policy)

    def status_of(self, policy: str) -> ProjectionStatus | None:
        """Return the status of a policy's projection; None if it does not run yet."""
        found = self._by_policy.get(policy)
        return None if found is None else found.part.status()

    def tables_of(self, policy: str) -> KnownTables | None:
        """Return the known tables of a policy; None until its state is open."""
        found = self._by_policy.get(policy)
        tables = None if found is None else found.tables()
        return None if tables is None else KnownTables(tables, self.ledgers.get(policy), self._last_names)

    def list_loads(self, policy: str) -> list[str]:
        """Return the tables of a policy that are being loaded or wait for a load, as ``db.table``."""
        found = self._by_policy.get(policy)
        return [] if found is None else [each.table for each in found.read(LOADS_OF_POLICY)]

    def rows(self, section: PolicySection, _context: StatusContext) -> tuple[Any, ...]:
        """Return the rows of all policies for one section of the status."""
        return tuple(
            row
            for replica in self.all
            if section.after_end or replica.part.status().state not in ENDED
            for row in replica.read(section)
        )

    def samplers(self) -> tuple[SamplerStatus, ...]:
        """Return the status of all policies' samplers."""
        return tuple(ledger.status() for name, ledger in self.ledgers.items() if not self.has_ended(name))


class _Databases(Protocol):
    def database_names(self) -> list[str]:
        """Return the names of all databases; raise Transient."""


def known_policies(config: Config) -> Iterator[str]:
    """Yield by name the policies of patterns that have a state file and whose database a pattern still
    covers.
    """
    for pattern in config.policy_patterns:
        files = state_path(config.state.dir, STATE_KIND, f"{pattern}.*")
        for path in sorted(files.parent.glob(files.name)):
            name = path.name.removeprefix(f"{STATE_KIND}-").removesuffix(".db")
            if config.find_policy(name) is None:
                log.warning("a replica is no longer followed: no pattern covers its database", policy=name)
            else:
                yield name


def discovery_job(runtime: Runtime, pattern: str, replicas: Replicas) -> Job:
    """Return the loop that finds new databases of ``pattern`` and adds their replicas."""
    start = partial(replicas.add, start=runtime.start_job)
    return Job(f"databases:{pattern}", partial(_run, runtime.config, pattern, replicas.shared, start))


def _run(
    config: Config,
    pattern: str,
    shared: SharedResources,
    start: Callable[[str], None],
    heartbeat: Heartbeat,
) -> None:
    settings = config.policy_patterns[pattern]
    discovery = DatabaseDiscovery(config, pattern, start)
    source = shared.metastores.source(settings.source, heartbeat.beat)
    while not heartbeat.stopping.is_set():
        discovery.look(source)
        heartbeat.following()
        heartbeat.progress()
        wait(heartbeat, settings.discover_s)


class DatabaseDiscovery:
    """Starts the replica of each database once."""

    def __init__(self, config: Config, pattern: str, start: Callable[[str], None]) -> None:
        self._config = config
        self._pattern = pattern
        self._start = start
        self._started: set[str] = set()

    def look(self, source: _Databases) -> None:
        """Start the replicas of new databases. Raises Transient, and the first ConfigError after starting all
        others.
        """
        problems = list(self._start_all(source.database_names()))
        if problems:
            raise problems[0]

    def _start_all(self, databases: Iterable[str]) -> Iterator[ConfigError]:
        for database in sorted(databases):
            name = f"{self._pattern}.{database}"
            if name in self._started or self._config.find_policy(name) is None:
                continue
            try:
                self._start(name)
            except ConfigError as error:
                yield error
                continue
            if self._config.daemons.owns(name):
                log.info("database found", policy=name, database=database)
            self._started.add(name)
