"""Limits of an HTTP server: how many connections there may be, and for how long each may do nothing.

They hold for all clients together, so that no client can lock out others or take the resources of the loops:
descriptors, memory and threads.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from typing import Final


HEAD_BYTES_MAX: Final = 16 * 1024
"""Request line and headers of one request."""
BODY_BYTES_MAX: Final = 64 * 1024
"""Body of one request."""
CHUNK_BYTES: Final = 64 * 1024
"""How much of an answer is handed to a connection at once; the rest waits until the client has read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one listener; times count from the moment at which it began to wait for the client."""

    connections: int = 128
    connections_per_address: int = 64
    head_s: float = 10.0
    """From the connection, or the last answer, to the end of the next request's headers. It includes the TLS
    handshake."""
    body_s: float = 10.0
    """From the end of the headers to the end of the body."""
    unread_s: float = 30.0
    """For how long a client may leave sent data unread."""
    answer_s: float = 300.0
    """From the end of the headers to the last byte of the answer."""
    memory_workers: int = 2
    """Answers from memory made at the same time. More would only take the processor from the loops."""
    store_workers: int = 4
    """Answers from stores made at the same time; these may wait for other systems."""
    action_workers: int = 4
    """Actions done at the same time."""
    waiting: int = 32
    """Requests of each kind that wait for a worker; the server refuses further ones."""
    answers_bytes: int = 128 * 1024 * 1024
    """Size of all answers that clients have not read yet."""


PROBES: Final = Limits(connections=64, connections_per_address=64, waiting=16)
"""Limits of the listener for probes and metrics."""


def group_of(address: str) -> str:
    """Return the key of one client: an IPv4 address, or the network of 64 bits of an IPv6 address."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv4Address):
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((int(parsed), 64), strict=False))
