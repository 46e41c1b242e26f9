"""The loop of the miner, which runs as a child process (``tideline keys mine --every``).

Parsing months of queries keeps a core busy for minutes, and the daemon's other loops need that core. Killing
the miner is always harmless, because it records the keys of a query together with the position after the
query. If a source fails, the next pass reads it again, and the status has the problem until then. The loop
ends only when the process ends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import structlog

from daemon.capability import Runtime
from daemon.keylog.settings import MINING
from daemon.keys.metrics import MiningMetrics
from daemon.keys.status import MINED, MinedSource, MiningStatus, SourcePass, read_passes
from daemon.process.child import build_command, reported_error
from daemon.process.child_loop import ChildLoop
from daemon.process.loops.loop import LoopStatus
from daemon.process.redaction import redact
from state.errors import MinerEnded, TidelineError


log = structlog.get_logger(__name__)

LOOP: Final = "mining"


def build_mining(runtime: Runtime, metrics: MiningMetrics) -> MinerLoop:
    """Return the miner's loop without starting it."""
    mining = MINING.of(runtime.config)
    return MinerLoop(
        build_command("keys", "mine", "--every", str(mining.every_s), config_file=runtime.config_file),
        metrics,
        mining.sources,
        redact,
    )


class MinerLoop(ChildLoop):
    """Runs the miner; its counts continue when the miner restarts."""

    name = "miner"
    ended = MinerEnded

    def __init__(
        self,
        command: Sequence[str],
        metrics: MiningMetrics,
        sources: Iterable[str],
        clean: Callable[[str], str],
    ) -> None:
        super().__init__(command, clean)
        self._metrics = metrics
        self._sources = {name: MinedSource(name) for name in sources}
        metrics.show_sources(self._sources)

    def status(self, loop: LoopStatus) -> MiningStatus:
        """Return the status of the miner and its sources. Thread-safe."""
        sources = tuple(self._sources.values())
        return MiningStatus(loop.shown_state.value, self.pid, sources, loop.problem, loop.code, loop.restarts)

    def process_event(self, event: Mapping[str, Any]) -> bool:
        """Count the passes of a ``mined`` event. No other event is progress."""
        if event["event"] != MINED:
            return False
        for source_pass in read_passes(event):
            self._count(
                source_pass
                if source_pass.error is None
                else replace(source_pass, error=self.clean(source_pass.error))
            )
        return True

    def reported_end(self, stopped: Mapping[str, Any]) -> TidelineError | None:
        """Return the miner's error; None after an orderly end."""
        return reported_error(stopped, self.clean) if "message" in stopped else None

    def _count(self, source_pass: SourcePass) -> None:
        source = self._sources.get(source_pass.source)
        if source is None:
            return  # the configuration has changed since the daemon's start
        now_s = time.time()
        self._metrics.count_pass(source_pass, now_s)
        self._sources[source_pass.source] = source.after(source_pass, now_s)
        if source_pass.error is not None:
            log.warning(
                "a query source was read only in part", source=source_pass.source, problem=source_pass.error
            )
