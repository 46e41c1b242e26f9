"""Access control: assigns a client with a role to every request, or refuses it, before its route sees it.

A client shows a bearer token or a certificate. Without configured tokens and certificates, everyone who
reaches the port may view; only a loopback address is then valid, unless ``http.allow_anonymous`` says
otherwise (``daemon.config.crosscheck``).

The header ``Host`` must name this machine. Otherwise a page of another site could let its own name point to
this address and read answers with the rights of the browser's user (DNS rebinding). An address always means
this machine, and the page of another site has no token, so both are exempt.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import socket
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from daemon.http.endpoints import problem_response
from daemon.http.tokens import ANONYMOUS, Client, Role, Tokens
from state.errors import Forbidden, TidelineError, Unauthenticated


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from starlette.types import ASGIApp, Receive, Scope, Send


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """The rules of one server."""

    tokens: Tokens = field(default_factory=lambda: Tokens(()))
    allows_anonymous: bool = True
    """Whether a client without token and certificate may view."""
    names: frozenset[str] = frozenset()
    """Names of this machine in ``Host``, in addition to its own and ``localhost``."""
    operators: frozenset[str] = frozenset()
    """Names in certificates of clients that may operate; others may view."""

    def client_of(self, scope: Scope) -> Client:
        """Return who sends a request; raise Unauthenticated, Forbidden."""
        headers = dict(scope["headers"])
        is_safe = scope["method"] in {"GET", "HEAD"} or _is_from_own_page(headers)
        token = _token_of(headers.get(b"authorization", b""), accepts_login=is_safe)
        if token is not None:
            client = self.tokens.find(token)
            if client is None:
                raise Unauthenticated("the token is unknown", hint=_HINT)
            return client
        self._check_host(headers.get(b"host", b"").decode("latin-1"))
        certificate = scope.get("state", {}).get("certificate")
        if certificate:
            if not is_safe and _is_from_browser(headers):
                raise Forbidden("the request comes from a page of another site", hint=_HINT)
            return self._client_of_certificate(certificate)
        if self.allows_anonymous:
            return ANONYMOUS
        raise Unauthenticated("the request has no token", hint=_HINT)

    def _client_of_certificate(self, certificate: Mapping[str, Any]) -> Client:
        names = list(_names_of(certificate))
        operator = next((name for name in names if name in self.operators), None)
        if operator is not None:
            return Client(operator, Role.OPERATE)
        return Client(names[0] if names else "certificate", Role.VIEW)

    def _check_host(self, given: str) -> None:
        host = _without_port(given).lower()
        if _is_address(host) or host in _OWN_NAMES or host in self.names:
            return
        raise Forbidden("the request names another host", host=host[:200], hint="Add the name to http.names.")


_HINT: Final = (
    "Give the command --token-file, or the request 'Authorization: Bearer TOKEN'. In a browser, load the "
    "page again and enter the token as the password."
)
_OWN_NAMES: Final = frozenset({"localhost", socket.gethostname().lower(), socket.getfqdn().lower()})


class Gate:
    """The application behind its access rules; ``refused`` counts refused requests, by code."""

    def __init__(self, app: ASGIApp, access: Access, refused: Callable[[str], None]) -> None:
        self._app = app
        self._access = access
        self._refused = refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on with its client, or answer it with 401 or 403."""
        try:
            client = self._access.client_of(scope)
        except TidelineError as error:
            self._refused(error.code)
            response = problem_response(error)
            if b"hx-request" in dict(scope.get("headers", ())):
                # Otherwise the browser would request a login at each refresh of a page.
                del response.headers["www-authenticate"]
            await response(scope, receive, send)
            return
        scope.setdefault("state", {}).update(client=client, refused=self._refused)
        await self._app(scope, receive, send)


def _token_of(header: bytes, *, accepts_login: bool) -> str | None:
    """Return the token of a request; None if it shows none.

    Browsers send a token as the password of a login, and repeat it on requests that another site's page makes
    them send. It is therefore taken only if the request changes nothing or comes from a page of the site.
    """
    scheme, _, value = header.decode("latin-1").strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() == "basic" and accepts_login:
        try:
            return base64.b64decode(value, validate=True).decode().partition(":")[2]
        except (binascii.Error, UnicodeDecodeError):
            return ""
    return None if not scheme else ""


def _is_from_own_page(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a script of the site sends a request.

    Browsers set ``Origin`` and ``Sec-Fetch-Site`` themselves, and let a script of another site send a header
    with an unknown name only if the server agrees beforehand, which it never does.
    """
    origin = headers.get(b"origin", b"").partition(b"://")[2]
    return (
        b"x-tideline-site" in headers
        and origin != b""
        and origin == headers.get(b"host")
        and headers.get(b"sec-fetch-site", b"same-origin") == b"same-origin"
    )


def _is_from_browser(headers: Mapping[bytes, bytes]) -> bool:
    """Whether a browser sends a request that may change something: it shows its certificate on requests of
    other sites' pages too, and then sends one of these headers.
    """
    return b"origin" in headers or b"sec-fetch-site" in headers


def _names_of(certificate: Mapping[str, Any]) -> Iterable[str]:
    """Yield the names in a certificate: of its subject, and its alternative ones."""
    for part in certificate.get("subject", ()):
        yield from (value for name, value in part if name == "commonName")
    yield from (value for _, value in certificate.get("subjectAltName", ()))


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
