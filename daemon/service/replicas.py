"""From a policy's settings to the projection that keeps its replica, and the loop that drives it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from daemon.metrics import ReplicationMeasures
from daemon.projection import ProjectionStatus
from daemon.reporting import ProjectionPart
from daemon.service.late import Late
from daemon.service.sources import STORE_VERSION, broker_settings, relay_settings, source_topic, state_file
from daemon.status import CopyStatus
from daemon.supervisor import Job
from state.errors import ConfigError


if TYPE_CHECKING:
    from daemon.config import Config
    from daemon.config.model import FilesConfig, PolicyConfig
    from daemon.consumer import TopicReader
    from daemon.lifeline import Lifeline
    from daemon.metrics import Metrics
    from handlers.files import CopyPool, FileSystems
    from handlers.replication.policy import Policy
    from handlers.replication.projection import ReplicationProjection
    from state.store.sqlite import SqliteStore


KIND: Final = "replication"
"""First part of the names of projections, loops and state files."""


def build_replication(config: Config, name: str, metrics: Metrics) -> tuple[Job, ProjectionPart]:
    """Return the loop of policy ``name`` and what it tells."""
    settings = config.policies[name]
    loop_name = f"{KIND}:{name}"
    late = Late(lambda: _ReplicaLoop(config, name, metrics))
    idle = ProjectionStatus(loop_name, settings.source, "starting", None, None)
    part = ProjectionPart(
        loop_name,
        settings.source,
        status=lambda: late.built.status if late.built is not None else idle,
        target=f"{settings.target}/{settings.replica_database}",
        copies=lambda: late.built.copies() if late.built is not None else CopyStatus(name),
    )
    return Job(loop_name, late.run), part


def policy_of(name: str, settings: PolicyConfig) -> Policy:
    """Return the policy that replay works by."""
    from handlers.replication.policy import Policy

    return Policy(
        name=name,
        source_db=settings.database,
        target_db=settings.replica_database,
        include=tuple(settings.tables.include),
        exclude=tuple(settings.tables.exclude),
        external_base=settings.external_base,
        on_failure=settings.on_failure,
    )


def open_state(config: Config, name: str) -> SqliteStore:
    """Open the state file of a policy, making it where there is none; raise StateCorrupt."""
    from state.store.sqlite import SqliteStore

    config.state.dir.mkdir(parents=True, exist_ok=True)
    return SqliteStore(state_file(config.state.dir, KIND, name), schema_version=STORE_VERSION)


class _ReplicaLoop:
    """One policy's projection with its reader; opened by the thread that runs it."""

    def __init__(self, config: Config, name: str, metrics: Metrics) -> None:
        settings = config.policies[name]
        self._name = name
        self._pool, file_systems = _copies(config, settings.source)
        self._projection = _projection(
            config, name, ReplicationMeasures(metrics, f"{KIND}:{name}"), self._pool, file_systems
        )
        self._reader = _reader(config, name)
        self.status = ProjectionStatus(self._projection.name, settings.source, "starting", None, None)

    def run(self, lifeline: Lifeline) -> None:
        """Follow until told to stop, and release everything only then: a restart finds its counts again."""
        from daemon.consumer import follow

        follow(self._projection, self._reader, lifeline, self._report)
        self._projection.close()

    def _report(self, status: ProjectionStatus) -> None:
        self.status = status

    def copies(self) -> CopyStatus:
        """Return what the pool has done."""
        done = self._pool.counters()
        return CopyStatus(
            self._name,
            files=done.files,
            size_bytes=done.size_bytes,
            skipped=done.skipped,
            waiting=sum(self._pool.pending()),
            fallbacks=done.from_change_manager,
            mismatches=done.mismatches,
            failed=done.failed,
        )


def _copies(config: Config, source: str) -> tuple[CopyPool, FileSystems]:
    from handlers.files import AllowedRoots, Copier, CopyPool, open_file_systems

    roots = config.sources[source].read_roots
    if not roots:
        raise ConfigError(
            "a policy copies from a source whose places are not named",
            key=f"sources.{source}.read_roots",
            hint="List the source's warehouse, its external locations and the change manager's root.",
        )
    file_systems = open_file_systems(_options(config.files))
    copier = Copier(file_systems, AllowedRoots.of(roots))
    return CopyPool(copier, workers=config.files.copy_workers), file_systems


def _options(files: FilesConfig) -> dict[str, dict[str, object]]:
    """Return the settings of each scheme, secrets included."""
    options: dict[str, dict[str, object]] = {scheme: dict(given) for scheme, given in files.options.items()}
    for scheme, secrets in files.secrets.items():
        shown = {name: secret.get_secret_value() for name, secret in secrets.items()}
        options.setdefault(scheme, {}).update(shown)
    return options


def _projection(
    config: Config, name: str, measures: ReplicationMeasures, pool: CopyPool, file_systems: FileSystems
) -> ReplicationProjection:
    from handlers.metastore import Metastore
    from handlers.replication.context import Context
    from handlers.replication.lastid import LastId
    from handlers.replication.projection import ReplicationProjection
    from handlers.replication.quarantine import Quarantine
    from handlers.replication.tables_seen import TablesSeen
    from state.transactions import TxnLedger

    settings = config.policies[name]
    policy = policy_of(name, settings)
    target = Metastore(config.targets[settings.target].metastore)
    context = Context(
        policy=policy,
        source=Metastore(config.sources[settings.source].metastore),
        target=target,
        seen=TablesSeen(target, policy),
        last_id=LastId(target, policy),
        ledger=TxnLedger(),
        quarantine=Quarantine(),
        copies=pool,
        files=file_systems,
        observer=measures,
    )
    return ReplicationProjection(source_name=settings.source, context=context, store=open_state(config, name))


def _reader(config: Config, name: str) -> TopicReader:
    from daemon.consumer import ConsumerSettings, TopicReader
    from daemon.deadletter import DeadLetters, dead_letter_topic
    from daemon.relay import outbox_of
    from handlers.metastore import Metastore

    assert config.kafka is not None, "checked with the configuration"
    source_name = config.policies[name].source
    source = config.sources[source_name]
    broker, topic = broker_settings(config.kafka), source_topic(config, source)
    letters = DeadLetters(
        broker,
        dead_letter_topic(config.kafka.dead_letter_topic, message_bytes_max=topic.settings.message_bytes_max),
        origin=source.topic,
        reader=f"{KIND}-{name}",
    )
    filler = outbox_of(lambda: Metastore(source.metastore), relay_settings(source_name, source), topic)
    return TopicReader(broker, topic, ConsumerSettings(group=f"tideline-{KIND}-{name}"), letters, filler)
