"""Chooses free ports that other programs do not take while a server restarts.

The kernel assigns ports of its ephemeral range (32768 and above) to outgoing connections, so this module
chooses ports below that range.
"""

from __future__ import annotations

import random
import socket

from dev.stack.errors import Missing


LOWEST, HIGHEST = 18000, 32000
TRIES = 200
# Do not use the shared generator, which pytest-randomly seeds with the same value before every test.
_RANDOM = random.SystemRandom()
_assigned: set[int] = set()


def is_free(port: int) -> bool:
    """Return whether a server could listen on 127.0.0.1:port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """Return a port that is not in use, a different one for each call in this process.

    Raises Missing if the range is exhausted.
    """
    for port in _RANDOM.sample(range(LOWEST, HIGHEST), TRIES):
        if port not in _assigned and is_free(port):
            _assigned.add(port)
            return port
    raise Missing(f"no free port between {LOWEST} and {HIGHEST}: stop processes that listen there")


def require_free(port: int, what: str) -> int:
    """Return ``port``; raise Missing if it is in use."""
    if not is_free(port):
        raise Missing(
            f"port {port} for {what} is in use: stop the process that listens on it (see 'ss -ltnp'), or "
            "omit the port"
        )
    return port
