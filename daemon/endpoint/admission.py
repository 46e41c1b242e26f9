"""Decides which connection to close if an endpoint has too many.

If the endpoint refused further clients, a few hundred silent connections could lock out all others for a day.
Instead, it closes the connection that has waited longest for its client. It chooses among the connections of
the address with the most of them, which causes the shortage, or of the new client's address if that has
reached its limit. It never chooses a client whose call is in progress, unless that client does not read its
answer. Clients of Hive repeat a call whose connection was closed.

Only if no connection waits does the endpoint refuse the new one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar


C = TypeVar("C")


@dataclass(frozen=True, slots=True)
class Admission(Generic[C]):
    """Whether to accept a new connection, and which one to close for it."""

    accepted: bool
    closed: C | None = None


def admit(
    address: str,
    connections: Iterable[tuple[C, str]],
    waiting_since: Callable[[C], float | None],
    *,
    connections_max: int,
    per_address_max: int,
) -> Admission[C]:
    """Decide on a new connection of ``address``.

    ``connections`` are the open ones with their addresses. ``waiting_since`` returns the time since which a
    connection has waited for its client; None during a call.
    """
    open_now = list(connections)
    counts = Counter(other for _, other in open_now)
    if counts[address] >= per_address_max:
        candidates = [each for each, other in open_now if other == address]
    elif len(open_now) >= connections_max:
        candidates = [each for each, _ in open_now]
    else:
        return Admission(accepted=True)
    addresses = {id(each): other for each, other in open_now}
    waiting = [(each, since) for each in candidates if (since := waiting_since(each)) is not None]
    if not waiting:
        return Admission(accepted=False)
    closed, _ = min(waiting, key=lambda pair: (-counts[addresses[id(pair[0])]], pair[1]))
    return Admission(accepted=True, closed=closed)
