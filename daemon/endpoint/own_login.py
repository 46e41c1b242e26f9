"""The login of the endpoint's own connections to a metastore that requires SASL; connections of clients carry the clients' logins."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from daemon.endpoint.protocol.peer import Disconnected, remaining_s
from handlers.metastore.login.authentication import authenticate
from state.errors import LoginFailed, MetastoreUnavailable


if TYPE_CHECKING:
    from daemon.endpoint.protocol.peer import Peer
    from handlers.metastore.address import Address
    from handlers.metastore.login.logins import Login


class PeerChannel:
    """A connection as the negotiation uses it (``frames.LimitedChannel``)."""

    def __init__(self, peer: Peer, timeout_s: float) -> None:
        self._peer = peer
        self._deadline = time.monotonic() + timeout_s
        self.limit = 0

    def read(self, size: int) -> bytes:
        """Read the available bytes, at most ``size``; the rest stays with the peer."""
        received = self._peer.receive(remaining_s(self._deadline))
        self._peer.unread = received[size:]
        return received[:size]

    def write(self, data: bytes) -> None:
        """Write all of ``data``."""
        self._peer.send(data, remaining_s(self._deadline))


def log_in(peer: Peer, login: Login, address: Address, timeout_s: float) -> None:
    """Log in on a new connection; raise LoginFailed, MetastoreUnavailable."""
    try:
        frames = authenticate(PeerChannel(peer, timeout_s), login, address.host)
    except (OSError, Disconnected) as error:
        raise MetastoreUnavailable(
            "the connection broke during the login", address=str(address), reason=str(error)
        ) from error
    if frames.is_protected:
        raise LoginFailed(
            "the endpoint cannot sign or encrypt its own queries",
            address=str(address),
            hint="Clients of such a metastore are passed through unread, so its endpoint needs no index. "
            "Let the metastore offer 'authentication' in hadoop.rpc.protection, with TLS for encryption.",
        )
