"""Addresses of metastores, which login each of them requires,
and defaults of connections. Loads no Thrift library.

The configuration gives every source and target its login once, when loaded. Connections look it up by their
address, so the credentials do not pass through the many places that only connect. A process has one
configuration, and therefore one table of logins.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from state.errors import ConfigError


SCHEME: Final = "thrift"
TLS_SCHEME: Final = "thrift+tls"
DEFAULT_PORT: Final = 9083
REPLY_BYTES_MAX: Final = 512 * 1024 * 1024
"""The largest answer that a client reads into memory."""
CONNECTIONS_MAX: Final = 32
"""Maximum number of connections of a pool."""


@dataclass(frozen=True, slots=True)
class Address:
    """The address of a metastore."""

    host: str
    port: int
    tls: bool = False

    def __str__(self) -> str:
        return f"{TLS_SCHEME if self.tls else SCHEME}://{self.host}:{self.port}"

    @staticmethod
    def parse(uri: str) -> Address:
        """Parse ``thrift://host:port`` or ``thrift+tls://host:port``; raise ConfigError for anything else."""
        try:
            parts = urlsplit(uri if "//" in uri else f"thrift://{uri}")
            host, port = parts.hostname, parts.port or DEFAULT_PORT
        except ValueError:
            host, port = None, 0
        if not host or parts.scheme not in {SCHEME, TLS_SCHEME} or parts.path not in {"", "/"}:
            raise ConfigError("a metastore address must have the form thrift://host:port", value=uri)
        return Address(host, port, tls=parts.scheme == TLS_SCHEME)


Protection = Literal["auth", "auth-int", "auth-conf"]
"""SASL's protection of calls after the login: nothing, signing, or signing and encryption."""
PROTECTIONS: Final[tuple[Protection, ...]] = ("auth", "auth-int", "auth-conf")
"""From the weakest to the strongest."""


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """A login with Kerberos tickets.

    ``service`` is the principal of the metastore; ``_HOST`` in it stands for the host of the address. With a
    ``keytab`` the client obtains its own tickets. Without one it uses the ticket cache of the process.
    """

    service: str
    client: str | None = None
    keytab: Path | None = None
    protection: Protection = "auth"
    """Weakest accepted protection of calls: 'auth' (none), 'auth-int' (signed) or 'auth-conf' (encrypted). It
    uses the weakest one that the metastore offers, too. Only for 'kerberos'.
    """

    def service_at(self, host: str) -> str:
        """Return the principal of the metastore on ``host``;
        Hadoop writes host names of principals in lower case.
        """
        return self.service.replace("/_HOST", f"/{host.lower()}")


class PasswordFile(Protocol):
    """A file with a password, which may be exchanged at any time."""

    path: Path

    def read_again(self) -> str:
        """Return the current password."""


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """A login with a user and a password, which the metastore receives as they are."""

    user: str
    password: str = field(repr=False)
    file: PasswordFile | None = field(default=None, repr=False, compare=False)
    """Where the current password is, if it is in a file."""

    def present_password(self) -> str:
        """Return the password for a login now."""
        return self.password if self.file is None else self.file.read_again()


Login = KerberosLogin | PasswordLogin

_LOGINS: Final[dict[tuple[str, int], Login]] = {}
_LOCK: Final = Lock()


def use_logins(logins: Mapping[tuple[str, int], Login]) -> None:
    """Use these logins from now on, by host and port, and no others."""
    with _LOCK:
        _LOGINS.clear()
        _LOGINS.update({(host.lower(), port): login for (host, port), login in logins.items()})


def login_at(host: str, port: int) -> Login | None:
    """Return the login that a server requires; None for connections without SASL."""
    with _LOCK:
        return _LOGINS.get((host.lower(), port))


def merge_logins(
    logins_by_cluster: Mapping[str, Mapping[tuple[str, int], Login | None]],
) -> dict[tuple[str, int], Login]:
    """Merge the logins of several clusters, by the clusters' names;
    raise ConfigError if two disagree about one server.
    """
    owners: dict[tuple[str, int], tuple[str, Login | None]] = {}
    for name, logins in logins_by_cluster.items():
        for address, login in logins.items():
            owner, owners_login = owners.setdefault(address, (name, login))
            if owners_login != login:
                raise ConfigError(
                    "a metastore has two different logins",
                    address=f"{address[0]}:{address[1]}",
                    clusters=[owner, name],
                    hint="Give both clusters the same 'auth'.",
                )
    return {address: login for address, (_, login) in owners.items() if login is not None}
