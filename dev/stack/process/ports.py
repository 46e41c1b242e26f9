"""Free ports that stay free.

The kernel hands out its ephemeral range (32768 and up) to every outgoing connection, so a port from there may be taken
in the moment a server restarts. Ports are therefore drawn below it.
"""

from __future__ import annotations

import random
import socket

from dev.stack.errors import Missing


LOWEST, HIGHEST = 18000, 32000
TRIES = 200
# Not the shared generator: pytest-randomly gives that one the same seed before every test.
_RANDOM = random.SystemRandom()
_given: set[int] = set()


def is_free(port: int) -> bool:
    """Whether a server could listen on 127.0.0.1:port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def free_port() -> int:
    """A port nobody listens on, and a different one at every call of this process.

    Raises Missing when the range is exhausted.
    """
    for port in _RANDOM.sample(range(LOWEST, HIGHEST), TRIES):
        if port not in _given and is_free(port):
            _given.add(port)
            return port
    raise Missing(f"no free port between {LOWEST} and {HIGHEST}: stop what listens there")


def require_free(port: int, what: str) -> int:
    """The given port, or Missing when somebody listens on it."""
    if not is_free(port):
        raise Missing(
            f"port {port} for {what} is taken: stop what listens there ('ss -ltnp'), or leave the port out"
        )
    return port
