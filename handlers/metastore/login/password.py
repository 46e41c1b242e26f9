"""The mechanism PLAIN (RFC 4616): user and password in one message."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.errors import LoginFailed


if TYPE_CHECKING:
    from handlers.metastore.login.logins import PasswordLogin, Protection


class Plain:
    """A login with a password (``negotiation.Mechanism``)."""

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
