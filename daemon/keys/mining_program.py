"""The miner as the daemon's child: passes over the query sources, again and again, each told as one event."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from daemon.keylog.opening import open_key_log
from daemon.keys.progress import MINED
from daemon.process.signals import stop_signals
from state.errors import TidelineError


if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from daemon.config.model import Config

    Tell = Callable[[Mapping[str, Any]], None]


def run_miner(load: Callable[[], Config], tell: Tell, every_s: float) -> None:
    """Mine all sources every ``every_s`` until SIGTERM or SIGINT, and tell what each pass came to.

    Main thread only. The last event tells why it ended, also where it could not begin; raises that.
    """
    with stop_signals() as stopped:
        try:
            _mine_on(load(), tell, every_s, stopped)
        except TidelineError as error:
            tell({"event": "stopped", "reason": error.code, "message": str(error)[:2000]})
            raise
    tell({"event": "stopped", "reason": "asked to"})


def _mine_on(config: Config, tell: Tell, every_s: float, stopped: threading.Event) -> None:
    with closing(open_key_log(config)) as log:
        from daemon.keys.mining import chosen_sources, mine_all, new_miner

        sources, miner = chosen_sources(config, ()), new_miner(config)
        tell({"event": "started"})
        while not stopped.is_set():
            tell({"event": MINED, "sources": mine_all(config, miner, log, sources, stopped.is_set)})
            stopped.wait(every_s)
