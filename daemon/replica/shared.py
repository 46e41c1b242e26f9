"""The shared resources of a daemon's policies, so that a policy without work costs nothing.

Each target has its own threads: if a target hangs, the policies of other targets continue. Each pair of
source and target has its own turns, because a source may hang as well. Bootstraps and loads have their own
copy threads, so that a table of many files does not delay the copies of replay. Loads give way to all other
work: on busy processors, a load would otherwise delay the commits of all policies by seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Self

from daemon.config.model import Config
from daemon.process.inbox_watch import InboxWatch
from daemon.process.loops.turns import Turns
from daemon.sources.connections import CallMetrics
from daemon.sources.metastores import MetastoreClients
from handlers.files.copying.byte_rates import ByteRate
from handlers.files.copying.processor_share import ProcessorShare
from handlers.replication.context import start_threads
from handlers.replication.target.idle_turns import IdleWork
from handlers.replication.target.long_work import LongWork
from handlers.shared_threads import SharedThreads


LOADS_NICE: Final = 10


@dataclass(frozen=True, slots=True)
class SharedResources:
    """Resources for all policies of a process. Opens nothing before its first use. Thread-safe."""

    metastores: MetastoreClients
    targets: Mapping[str, TargetThreads]
    rate: ByteRate
    """The rate limit of all copies."""
    processor: ProcessorShare = field(default_factory=ProcessorShare)
    """The share of the processor for all copies that replay does not need."""
    inboxes: InboxWatch = field(default_factory=InboxWatch)
    _rates: dict[str, ByteRate] = field(default_factory=dict)
    _turns: dict[tuple[str, str], Turns] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Config, calls: CallMetrics) -> Self:
        """Return the shared resources of this configuration's policies, which count their metastore calls in
        ``calls``.
        """
        workers = config.files.copy_workers
        return cls(
            MetastoreClients(config, calls),
            {
                name: TargetThreads(
                    ahead=start_threads(),
                    copies=SharedThreads(workers, name="tideline-copy"),
                    load_copies=SharedThreads(workers, name="tideline-load-copy", nice=LOADS_NICE),
                )
                for name in config.targets
            },
            ByteRate(config.files.bytes_per_s_max),
        )

    def policy_rate(self, config: Config, policy: str) -> ByteRate:
        """Return the rate limit of a policy's copies."""
        return self._rates.setdefault(policy, ByteRate(config.policy(policy).bytes_per_s_max))

    def turns(self, source: str, target: str) -> Turns:
        """Return the threads that follow the policies of a source and a target."""
        return self._turns.setdefault((source, target), Turns(name=f"follow-{source}-{target}"))

    def close(self) -> None:
        """Release all resources that no policy uses any longer."""
        self.metastores.close()
        for turns in self._turns.values():
            turns.close()
        for threads in self.targets.values():
            threads.close()


@dataclass(frozen=True, slots=True)
class TargetThreads:
    """The threads of one target's policies. None runs without work."""

    ahead: SharedThreads
    """Apply changes ahead of their turn."""
    copies: SharedThreads
    """Copy files that replay needs."""
    load_copies: SharedThreads
    """Copy the files of loads."""
    idle: IdleWork = field(default_factory=IdleWork)
    """Turns of policies that no event concerns."""
    long_work: LongWork = field(default_factory=LongWork)
    """Places for loads and cycles of external tables."""

    def close(self) -> None:
        """End all threads without work at once."""
        for threads in (self.ahead, self.copies, self.load_copies):
            threads.close()
