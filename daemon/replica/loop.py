"""The loop of one policy: builds its projection from the settings, and drives it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from daemon.consumer.projection import ProjectionLoop, ProjectionStatus
from daemon.process.inbox import Inbox, requests_directory
from daemon.process.loops.heartbeat import LazyLoop, Pulse
from daemon.process.loops.loop import Job
from daemon.replica.copy_jobs.policy_jobs import build_jobs, ignore_job
from daemon.replica.external.policy_cycles import build_external
from daemon.replica.followed import FollowedReplica
from daemon.replica.loading.bootstrap_progress import LoggedProgress
from daemon.replica.loading.load_resources import LoadCopies
from daemon.replica.metrics import PolicyObserver, release_command
from daemon.replica.policies import STATE_KIND, database_directories, handler_policy, named_directories
from daemon.replica.settings import BOOTSTRAP
from daemon.replica.status.loads import LoadCounts
from daemon.replica.status.points import PointTaker
from daemon.replica.status.policy_sections import OpenPolicy
from daemon.sources.connections import topic_reader
from daemon.sources.shared_readers import subscribe
from daemon.state_directory.directory import open_state
from daemon.status.model import NEW
from daemon.status.reporter import ProjectionPart
from daemon.waits.conditions import Moves
from handlers.files.copying.byte_rates import ByteRate, Urgency
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.copying.throttle import Throttle
from handlers.files.paths import AllowedRoots
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.context import Context
from handlers.replication.loading.bootstrap_run import BootstrapOptions
from handlers.replication.loading.load_thread import LoadThread
from handlers.replication.loading.table.tools import LoadSettings
from handlers.replication.projection import ReplicationProjection
from handlers.replication.target.target_position import TargetPosition
from state.event_log.positions import Position


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from daemon.capability import Runtime
    from daemon.config.model import Config
    from daemon.consumer.topic_reader import TopicReader
    from daemon.process.loops.heartbeat import Heartbeat
    from daemon.replica.loading.bootstrap_turns import BootstrapTurns
    from daemon.replica.metrics import ReplicaMetrics
    from daemon.replica.shared import SharedResources
    from daemon.replica.status.policy_sections import PolicySection
    from handlers.files.copying.jobs import JobStatus
    from handlers.replication.loading.bootstrap_run import BootstrapProgress
    from handlers.replication.observer import Observer
    from handlers.replication.operations.promotion import Promotion
    from handlers.replication.tables.policy_tables import PolicyTables


@dataclass(frozen=True, slots=True)
class ReplicaPart:
    """The loop of one policy, with its parts of the status."""

    job: Job
    part: ProjectionPart
    read: Callable[[PolicySection], Sequence[Any]]
    """Returns the policy's rows of a section."""
    tables: Callable[[], PolicyTables | None]
    """Returns the facts about the policy's tables; None until its state is open."""


def build_replica(
    runtime: Runtime,
    name: str,
    metrics: ReplicaMetrics,
    bootstraps: BootstrapTurns,
    shared: SharedResources,
) -> ReplicaPart:
    """Return the loop of policy ``name`` with its parts of the status. Opens nothing."""
    policy = runtime.config.policy(name)
    projection = projection_name(name)
    metrics.projections.series.join(projection)
    lazy = LazyLoop(lambda: _Replica(runtime, name, metrics, shared, bootstraps))
    idle = ProjectionStatus(projection, policy.source, "starting", None, None)
    part = ProjectionPart(
        projection,
        policy.source,
        status=lambda: lazy.read(lambda replica: replica.loop.read_status(), idle),
        counts=lambda: lazy.read(lambda replica: replica.loop.counts(), None),
        target=f"{policy.target}/{policy.replica_database}",
        repair=release_command(name),
        loading=lambda: bootstraps.list_waiting(name),
        place=lambda: bootstraps.find_place(name),
    )
    return ReplicaPart(
        Job(
            projection,
            lazy.run,
            revive=lambda: lazy.read(lambda replica: replica.loop.serve_failed(), otherwise=False),
            turns=shared.turns(policy.source, policy.target),
        ),
        part,
        lambda section: lazy.read(
            lambda replica: section.read(replica.parts), section.read_unopened(name, policy)
        ),
        lambda: lazy.read(lambda replica: replica.parts.context.tables, None),
    )


def projection_name(policy: str) -> str:
    """Return the name of a policy's projection."""
    return f"replication:{policy}"


def load_settings(config: Config) -> LoadSettings:
    """Return the settings of loads."""
    section = BOOTSTRAP.of(config)
    return LoadSettings(
        section.open_transaction_timeout_s,
        section.abort_open_transactions,
        tables_at_once=section.tables_at_once,
    )


def bootstrap_options(
    config: Config,
    name: str,
    pulse: Pulse,
    *,
    progress: BootstrapProgress | None = None,
) -> BootstrapOptions:
    """Return the options of the policy's bootstraps, which report to ``progress``, by default to the log."""
    return BootstrapOptions(
        load_settings(config),
        is_stopping=pulse.is_stopping,
        progress=progress or LoggedProgress(name),
    )


def build_projection(
    config: Config,
    name: str,
    observer: Observer,
    shared: SharedResources,
    pulse: Pulse,
    bootstrap: BootstrapOptions | None = None,
    job_changed: Callable[[JobStatus], None] = ignore_job,
) -> tuple[ReplicationProjection, CopyPool]:
    """Open the policy's state.

    Returns its projection and copy pool. Raises StateCorrupt, StateLocked, ConfigError. ``pulse`` receives
    each step of long work: an applied event, an answered call, copied bytes. Copy jobs report their progress
    to ``job_changed``.
    """
    beat = pulse.beat
    settings = config.policy(name)
    policy = handler_policy(config, name)
    source = shared.metastores.source(settings.source, beat)
    target = shared.metastores.target(settings.target, pulse.answered)
    file_systems = open_file_systems(config.files.all_options(), named_directories(policy))
    roots = AllowedRoots.of(config.sources[settings.source].read_roots)
    jobs = build_jobs(config, name, file_systems, job_changed)
    store = open_state(config.state.dir, STATE_KIND, name)  # last, so that a failure leaves nothing open
    position = TargetPosition(
        target, policy, found=lambda database: file_systems.trust(database_directories(database))
    )
    copier = Copier(file_systems, roots, guard=position.require_held)
    threads = shared.targets[settings.target]
    copies = CopyPool(
        copier,
        workers=config.files.copy_workers,
        threads=threads.copies,
        load_threads=threads.load_copies,
        beat=beat,
        throttle=Throttle(_rates(config, name, shared), processor=shared.processor),
    )
    context = Context.between(
        source, position, policy, copies=copies, files=file_systems, observer=observer, jobs=jobs
    )
    context = replace(context, threads=threads.ahead, idle=threads.idle, long_work=threads.long_work)
    projection = ReplicationProjection(
        source_name=settings.source,
        context=context,
        store=store,
        bootstraps_itself=settings.bootstrap == "auto",
        bootstrap=bootstrap or bootstrap_options(config, name, pulse),
        beat=beat,
    )
    return projection, copies


def _rates(config: Config, name: str, shared: SharedResources) -> Sequence[ByteRate]:
    """Return the rate limits of a policy's copies. The policy's own is first: a copy that waits for it delays
    no other policy.
    """
    return [shared.policy_rate(config, name), shared.rate]


def _open_load_pool(config: Config, context: Context, shared: SharedResources) -> CopyPool:
    """Return the copy pool of one load."""
    name = context.policy.name
    return CopyPool(
        context.build_copier(),
        workers=config.files.copy_workers,
        threads=shared.targets[config.policy(name).target].load_copies,
        throttle=Throttle(_rates(config, name, shared), Urgency.LOAD, processor=shared.processor),
    )


def catch_up_reader(config: Config, name: str) -> TopicReader:
    """Return a second reader of the policy's topic for tables that catch up. Raises ConfigError,
    KafkaUnavailable.
    """
    return topic_reader(
        config,
        config.policy(name).source,
        projection=projection_name(name),
        group=f"tideline.{name}.catch-up",
    )


class _Replica:
    """One policy's replica. It stays open when its loop restarts."""

    def __init__(
        self,
        runtime: Runtime,
        name: str,
        metrics: ReplicaMetrics,
        shared: SharedResources,
        bootstraps: BootstrapTurns,
    ) -> None:
        config, source = runtime.config, runtime.config.policy(name).source
        observer = PolicyObserver(metrics, projection_name(name))
        self._pulse = Pulse()
        projection, copies = build_projection(config, name, observer, shared, self._pulse)
        self._context = context = projection.loads.context
        try:
            position, applied_time_s = projection.read_state(), projection.find_time_s()
            external = build_external(config, name, context, _rates(config, name, shared), shared.processor)
        except BaseException:
            projection.close()
            raise
        inbox = requests_directory(config.state.dir, STATE_KIND, name)
        shared.inboxes.add(inbox, self._pulse.wake)
        load_copies = LoadCopies(lambda: _open_load_pool(config, context, shared))
        load_counts = LoadCounts()
        load_thread = LoadThread(context, load_copies.open, load_settings(config), progress=load_counts)
        self._followed = FollowedReplica(
            projection,
            Inbox(inbox),
            load_thread,
            lambda: catch_up_reader(config, name),
            bootstraps=bootstraps,
            report_pause=self._report_pause,
            external=external,
            report_end=self._report_end,
            report_new=self._report_new,
            replaying=shared.processor.replaying,
        )
        reader = subscribe(
            config,
            runtime.readers.of(source),
            source,
            projection=projection_name(name),
            group=f"tideline.{name}",
            find_interest=self._followed.find_interest,
            wake=self._pulse.wake,
        )
        self._points = PointTaker(name)
        self._moves = Moves(runtime.waits.moved, projection_name(name))
        self.parts = OpenPolicy(
            name,
            config.policy(name),
            context,
            copies,
            load_copies,
            load_counts,
            load_thread,
            external,
            self._points,
        )
        self.loop = ProjectionLoop(
            self._followed,
            lambda: reader,
            metrics.projections,
            position=position,
            applied_time_s=applied_time_s,
            report=self._report,
        )

    def run(self, heartbeat: Heartbeat) -> Iterator[float]:
        """Follow the topic until a stop request; yield how long to rest."""
        self._pulse.connect(heartbeat)
        self._followed.connect(heartbeat)
        yield from self.loop.run(heartbeat)

    def close(self) -> None:
        """Release the state and all connections."""
        self.loop.close()

    def _report_pause(self, since_s: int | None, reason: str) -> None:
        state = "following" if since_s is None else "paused"
        self.loop.status = replace(self.loop.status, state=state, paused_since_s=since_s, pause_reason=reason)

    def _report_end(self, promotion: Promotion | None) -> None:
        status = replace(self.loop.status, state="retired", paused_since_s=None, pause_reason="")
        if promotion is not None:
            status = replace(status, state="promoted", position=Position(promotion.event_id))
        self.loop.status = status

    def _report_new(self, waits: bool) -> None:  # noqa: FBT001 - a callback
        self.loop.status = replace(self.loop.status, state=NEW if waits else "starting")

    def _report(self, status: ProjectionStatus) -> None:
        self._moves.report(status.position, status.quarantined)
        if status.position is not None:
            self._points.take(status.position.applied_event_id, status.applied_time_s, self._context)
