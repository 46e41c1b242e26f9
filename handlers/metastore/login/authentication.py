"""Logs in on a new connection and returns the transport for its calls."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.metastore.login.frames import Frames
from handlers.metastore.login.kerberos import Kerberos
from handlers.metastore.login.logins import PasswordLogin
from handlers.metastore.login.negotiation import negotiate
from handlers.metastore.login.password import Plain
from state.errors import LoginFailed


if TYPE_CHECKING:
    from handlers.metastore.login.frames import LimitedChannel
    from handlers.metastore.login.logins import Login
    from handlers.metastore.login.negotiation import Mechanism


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
