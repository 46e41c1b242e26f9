"""From the settings of mining to the loop that keeps the miner running.

Mining is a process of its own (``tideline keys mine --every``): parsing months of queries takes a core for minutes, which the
daemon's other loops need. It may be ended at any moment, since a query's keys and the position behind it are recorded together.
A source that fails is tried again with the next pass and told of meanwhile; the loop ends with the process alone.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

import structlog

from daemon.keylog.settings import MINING
from daemon.keys.progress import MINED, MinedSource, MiningStatus, SourcePass, after, passes_of
from daemon.process.child import LISTEN_S, STARTED, STOPPED, Child, build_command, reported_error
from daemon.process.redaction import Redactor
from state.errors import MalformedEvent, MinerEnded, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from daemon.capability import Runtime
    from daemon.keys.metrics import MiningMetrics
    from daemon.process.heartbeat import Heartbeat
    from daemon.process.supervisor import LoopStatus


log = structlog.get_logger(__name__)

LOOP: Final = "mining"


def build_mining(runtime: Runtime, metrics: MiningMetrics) -> MinerLoop:
    """Return the miner's loop; starts nothing yet."""
    mining = MINING.of(runtime.config)
    return MinerLoop(
        build_command("keys", "mine", "--every", str(mining.every_s), config_file=runtime.config_file),
        metrics,
        mining.sources,
        Redactor(runtime.config.secrets()).text,
    )


class MinerLoop:
    """The miner, kept over restarts: its counts go on."""

    def __init__(
        self,
        command: Sequence[str],
        metrics: MiningMetrics,
        sources: Iterable[str],
        clean: Callable[[str], str] = str,
    ) -> None:
        self._command = command
        self._metrics = metrics
        self._clean = clean
        """Takes secrets out of what the miner said: errors are shown over HTTP."""
        self._sources = {name: MinedSource(name) for name in sources}
        self._pid: int | None = None
        metrics.expect(self._sources)

    def run(self, heartbeat: Heartbeat) -> None:
        """Keep a miner until told to stop; raises what ended it."""
        with Child(self._command) as miner:
            self._pid = miner.pid
            try:
                end = self._follow(miner, heartbeat)
            finally:
                self._pid = None
        if end is not None:
            raise end

    def status(self, loop: LoopStatus) -> MiningStatus:
        """Return how it stands; for any thread."""
        sources = tuple(self._sources.values())
        return MiningStatus(loop.state.value, self._pid, sources, loop.problem, loop.code, loop.restarts)

    def _follow(self, miner: Child, heartbeat: Heartbeat) -> TidelineError | None:
        """Listen until the miner ends, and return why it did; None where the loop is to stop."""
        stopped: Mapping[str, Any] | None = None
        while not heartbeat.stopping.is_set():
            code = miner.exit_code  # before listening: what it said last has then arrived
            events, output = miner.listen(LISTEN_S)
            for line in output:
                log.info("the miner writes", line=line)
            for event in events:
                stopped = event if event["event"] == STOPPED else stopped
                self._take(event, heartbeat)
            if code is not None:
                return self._end(stopped, code, miner)
            heartbeat.beat()
        return None

    def _take(self, event: Mapping[str, Any], heartbeat: Heartbeat) -> None:
        if event["event"] == STARTED:
            heartbeat.following()
        elif event["event"] == MINED:
            try:
                passes = passes_of(event)
            except MalformedEvent as error:
                log.warning("an event of the miner was left out", problem=str(error))
                return
            for done in passes:
                self._note(done if done.error is None else replace(done, error=self._clean(done.error)))
            heartbeat.progress()

    def _note(self, done: SourcePass) -> None:
        known = self._sources.get(done.source)
        if known is None:
            return  # the configuration has changed since the daemon's start
        now_s = time.time()
        self._metrics.took(done, now_s)
        self._sources[done.source] = after(known, done, now_s)
        if done.error is not None:
            log.warning("a source of queries was not read to its end", source=done.source, problem=done.error)

    def _end(self, stopped: Mapping[str, Any] | None, code: int, miner: Child) -> TidelineError:
        if stopped is not None and "message" in stopped:
            return reported_error(stopped, self._clean)
        return MinerEnded("the miner ended", exit_code=code, last_words=miner.recent_output(self._clean))
