"""The request to the relay of one source to continue after a gap.

A running daemon gets it as a file. Without a daemon, the command opens the relay itself
(``daemon.status.client.serve_request``). The answer to ``{"do": "cross-gap"}`` is ``{"after": ..., "upto":
...}``, or an error if there is no gap.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import asdict
from typing import Any, Final

from daemon.config.model import Config
from daemon.status.client import serve_request
from state.errors import ConfigError, NotFound


TIMEOUT_S: Final = 120.0


def cross_gap_of(config: Config, source: str) -> dict[str, Any]:
    """Make the relay of ``source`` continue after a gap; return the ids around the gap.

    Raises ConfigError for an unknown source or one that another daemon relays, InvalidRequest if there is no
    gap, Transient.
    """
    _require_relayed(config, source)
    absent = NotFound(
        "the running daemon does not relay this source",
        source=source,
        hint="Restart it with the current configuration, on the machine with its state directory.",
    )
    return serve_request(
        config.state.dir,
        ("relay", source),
        {"do": "cross-gap"},
        timeout_s=TIMEOUT_S,
        absent=absent,
        here=lambda: _cross_here(config, source),
    )


def _require_relayed(config: Config, source: str) -> None:
    names = [name for name, each in config.sources.items() if each.relay.enabled]
    if source not in names:
        hint = f"Sources of this relay: {', '.join(names) or 'none'}."
        raise ConfigError(
            "this configuration does not relay the source", hint=hint, key="sources", value=source
        )


def _cross_here(config: Config, source: str) -> dict[str, Any]:
    from prometheus_client import CollectorRegistry

    from daemon.relay.loop import build_relay
    from daemon.sources.connections import CallMetrics

    calls = CallMetrics(CollectorRegistry(auto_describe=False))
    with closing(build_relay(config, source, config.sources[source], calls)) as relay:
        return asdict(relay.cross_gap())
