"""Logs in on a new connection, with a password (PLAIN, RFC 4616) or with Kerberos (GSSAPI, RFC 4752).

GSSAPI is a login with Kerberos tickets, then the choice of a protection for the calls.

With a keytab, tickets live in memory. The library obtains a new one for a connection if the current one is
missing, expired or past half of its life, so an outage of the KDC that is shorter than that stops nothing.
Open connections need no valid ticket.
"""

from __future__ import annotations

import os
import threading
from typing import Final

from handlers.metastore.addresses import PROTECTIONS, KerberosLogin, Login, PasswordLogin, Protection
from handlers.metastore.login.gssapi import Context, GssapiError, destroy_ticket_cache
from handlers.metastore.login.sasl import Frames, LimitedChannel, Mechanism, negotiate
from state.errors import LoginFailed


_LAYERS: Final[dict[Protection, int]] = {"auth": 1, "auth-int": 2, "auth-conf": 4}
_MESSAGE_BYTES_MAX: Final = 0xFFFFFF
_PROTOCOL: Final = -1765328384
"""Error codes of the Kerberos protocol begin here; those of the library follow from 128 on."""
_TICKET_EXPIRED: Final = _PROTOCOL + 32
_HINTS: Final = {
    _PROTOCOL + 1: "The principal's entry at the KDC has expired; renew it there.",
    _PROTOCOL + 6: "The KDC does not know the client's principal: check 'client_principal' and the keytab.",
    _PROTOCOL + 7: (
        "The KDC does not know the metastore's principal: check 'principal', and the host if it contains "
        "_HOST."
    ),
    _PROTOCOL + 18: "The KDC has locked or disabled the client's principal.",
    _PROTOCOL + 24: "The keytab's key is not the KDC's: export the keytab again.",
    _PROTOCOL + 31: (
        "The keys of the client or of the metastore do not match those of the KDC: export the keytabs again."
    ),
    _TICKET_EXPIRED: (
        "The ticket has expired: run kinit, or give Tideline a keytab, with which it renews tickets."
    ),
    _PROTOCOL + 33: (
        "The ticket is not valid yet: the clocks of this host and of the KDC differ too much; "
        "synchronize them."
    ),
    _PROTOCOL + 37: "The clocks of this host and of the KDC differ too much: synchronize them.",
    _PROTOCOL + 156: "No KDC of the realm answers: check krb5.conf and the network.",
    _PROTOCOL + 154: "krb5.conf does not name a KDC of the realm.",
}
_NOT_RENEWED: Final = (
    "The ticket has expired and could not be renewed: check that the KDC answers and accepts the keytab."
)
_NO_TICKET: Final = "There is no ticket: run kinit, or give Tideline a keytab."
_NO_KEY: Final = (
    "Check that the keytab has a key of 'client_principal': 'klist -k FILE' lists its principals."
)
_HINT: Final = "Check the ticket or the keytab, the principals, krb5.conf and the clocks."


def authenticate(channel: LimitedChannel, login: Login, host: str) -> Frames:
    """Log in at the metastore on ``host``; raise LoginFailed, or the channel's error."""
    mechanism: Mechanism = Plain(login) if isinstance(login, PasswordLogin) else Kerberos(login, host)
    try:
        negotiate(channel, mechanism)
    except LoginFailed as error:
        if isinstance(mechanism, Kerberos):
            mechanism.discard_refused_tickets()
        own = (
            {"user": login.user}
            if isinstance(login, PasswordLogin)
            else {"principal": login.service_at(host)}
        )
        error.context = {"host": host} | own | error.context
        raise
    return Frames(channel, mechanism.protection[1])


class Plain:
    """The mechanism PLAIN: user and password in one message."""

    name: Final = "PLAIN"

    def __init__(self, login: PasswordLogin) -> None:
        self._login = login
        self._sent = False

    @property
    def hint(self) -> str:
        """Where the password is, and whether the daemon finds a new one there."""
        if self._login.file is None:
            return "Check the user and the password; restart the daemon after you have changed one of them."
        return f"Check the user, and write the current password into {self._login.file.path}."

    @property
    def is_complete(self) -> bool:
        """Whether the client has sent the password."""
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
        return f"\0{self._login.user}\0{self._login.present_password()}".encode()


class Kerberos:
    """A login with tickets (``negotiation.Mechanism``), and the protection of calls after it
    (``MessageProtection``).
    """

    name: Final = "GSSAPI"
    hint: Final = (
        "Compare the clocks, and 'principal' with the metastore's keytab; then read the metastore's log."
    )

    def __init__(self, login: KerberosLogin, host: str) -> None:
        self._login = login
        self._service = login.service_at(host)
        self._context = Context(self._service, login.client, _credential_store(login))
        self._protection: Protection | None = None
        self._has_ticket = False

    @property
    def is_complete(self) -> bool:
        """Whether the negotiation of the protection of calls is complete."""
        return self._protection is not None

    @property
    def protection(self) -> tuple[Protection, Kerberos | None]:
        """The negotiated protection."""
        level = self._protection or "auth"
        return level, None if level == "auth" else self

    def respond(self, challenge: bytes) -> bytes:
        """Return the next token, and after the last one the choice of a protection."""
        try:
            if self._context.is_established:
                return self._choose_protection(challenge)
            token = self._context.step(challenge)
        except GssapiError as error:
            self._discard_expired_tickets(error)
            raise self._failed("the Kerberos login failed", error) from error
        self._has_ticket = True
        return token

    def discard_refused_tickets(self) -> None:
        """Discard the tickets of the keytab after a refusal by the metastore: after a change of its key, it
        refuses tickets for the old key.

        If only the KDC failed, the tickets stay, because they are still good for other servers.
        """
        if self._has_ticket and self._login.keytab is not None:
            destroy_ticket_cache(_ticket_cache(self._login))

    def _discard_expired_tickets(self, error: GssapiError) -> None:
        """Discard tickets after a failed renewal: as long as there are any, the library only says that they
        have expired.

        The next attempt then reports why the KDC issues no new ones.
        """
        if error.code == _TICKET_EXPIRED and self._login.keytab is not None:
            destroy_ticket_cache(_ticket_cache(self._login))

    def wrap(self, message: bytes) -> bytes:
        """Return the signed or encrypted message."""
        try:
            return self._context.wrap(message, encrypted=self._protection == "auth-conf")
        except GssapiError as error:
            raise self._failed("a call cannot be signed or encrypted", error) from error

    def unwrap(self, token: bytes) -> bytes:
        """Return the message; raise LoginFailed if it was changed on its way, or is not encrypted although
        both sides agreed on encryption.
        """
        try:
            message, encrypted = self._context.unwrap(token)
        except GssapiError as error:
            raise self._failed("an answer has no valid signature", error) from error
        if self._protection == "auth-conf" and not encrypted:
            raise LoginFailed("the metastore sent an unencrypted answer", principal=self._service)
        return message

    def _choose_protection(self, challenge: bytes) -> bytes:
        """Choose the weakest protection that both sides accept:
        the server's settings decide about stronger ones.
        """
        offer, _ = self._context.unwrap(challenge)
        if len(offer) != 4:
            raise LoginFailed("the metastore's list of protections is malformed", principal=self._service)
        accepted = PROTECTIONS[PROTECTIONS.index(self._login.protection) :]
        level = next((each for each in accepted if offer[0] & _LAYERS[each]), None)
        if level is None:
            raise LoginFailed(
                "the metastore does not offer the required protection",
                required=self._login.protection,
                offered=[each for each in PROTECTIONS if offer[0] & _LAYERS[each]],
                hint="Change 'protection', or hadoop.rpc.protection of the metastore.",
            )
        size = 0 if level == "auth" else _MESSAGE_BYTES_MAX
        choice = bytes([_LAYERS[level]]) + size.to_bytes(3, "big")
        response = self._context.wrap(choice, encrypted=False)
        self._protection = level
        return response

    def _failed(self, message: str, error: GssapiError) -> LoginFailed:
        lacking = _NO_TICKET if self._login.keytab is None else _NO_KEY
        hint = _HINTS.get(error.code, lacking if error.lacks_credentials else _HINT)
        if error.code == _TICKET_EXPIRED and self._login.keytab is not None:
            hint = _NOT_RENEWED
        return LoginFailed(
            message,
            principal=self._service,
            client=self._login.client,
            reason=str(error),
            hint=hint,
        )


def _credential_store(login: KerberosLogin) -> dict[str, str]:
    """Return where the library finds credentials;
    each thread has its own tickets, because the library replaces them when it renews them.
    """
    if login.keytab is None:
        return {}
    if not os.access(login.keytab, os.R_OK):
        raise LoginFailed(
            "the keytab cannot be read",
            keytab=str(login.keytab),
            hint="Check its path, and that the daemon's user may read it.",
        )
    return {"client_keytab": f"FILE:{login.keytab}", "ccache": _ticket_cache(login)}


def _ticket_cache(login: KerberosLogin) -> str:
    owner = f"{login.client or ''}-{login.keytab}".replace("/", "-")
    return f"MEMORY:tideline-{owner}-{threading.get_ident()}"
