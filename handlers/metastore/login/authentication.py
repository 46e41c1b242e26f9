"""Logs in on a new connection, with a password or with Kerberos, and returns the transport for its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.metastore.addresses import PasswordLogin
from handlers.metastore.login.kerberos import Kerberos
from handlers.metastore.login.sasl import Frames, negotiate
from state.errors import LoginFailed


if TYPE_CHECKING:
    from handlers.metastore.addresses import Login, Protection
    from handlers.metastore.login.sasl import LimitedChannel, Mechanism


class Plain:
    """The mechanism PLAIN (RFC 4616): user and password in one message."""

    name: Final = "PLAIN"
    hint: Final = "Check the user and the password, and the metastore's own log for its reason."

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login
        self._sent = False

    @property
    def is_complete(self) -> bool:
        """Whether the password was sent."""
        return self._sent

    @property
    def protection(self) -> tuple[Protection, None]:
        """PLAIN protects nothing; use TLS."""
        return "auth", None

    def respond(self, challenge: bytes) -> bytes:
        """Return the user and the password."""
        if challenge:
            raise LoginFailed("the metastore sent an unexpected challenge", mechanism=self.name)
        self._sent = True
        return f"\0{self._login.user}\0{self._login.password}".encode()


def authenticate(channel: LimitedChannel, login: Login, host: str) -> Frames:
    """Log in at the metastore on ``host``; raise LoginFailed, or what the channel raises."""
    mechanism: Mechanism = Plain(login) if isinstance(login, PasswordLogin) else Kerberos(login, host)
    try:
        negotiate(channel, mechanism)
    except LoginFailed as error:
        if isinstance(mechanism, Kerberos):
            mechanism.discard_refused_tickets()
        error.context.setdefault("host", host)
        raise
    return Frames(channel, mechanism.protection[1])
