"""How a command connects to a daemon: the address, the token, and the trusted certificate.

A daemon on this machine writes its address, its token and the fingerprint of its certificate into the state
directory. ``--url`` names a daemon elsewhere. Its token comes from a file, because other users can read the
arguments of a process.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
import orjson

from daemon.state_directory.directory import ADDRESS_FILE, TOKEN_FILE
from daemon.terminal.application import load_config
from state.errors import ConfigError, Transient


TIMEOUT_S: Final = 5.0
TOKEN_BYTES_MAX: Final = 16 * 1024
_ADDRESS_RULE: Final = "the address of the daemon must be http://host:port or https://host:port"


@dataclass(frozen=True, slots=True)
class DaemonAddress:
    """The address of a daemon, and the settings of a connection to it."""

    url: str
    token: str | None = None
    ca_file: str | None = None
    """Authority that signed the daemon's certificate; None: those of the system."""
    cert_file: str | None = None
    """Certificate of this client and its key, in one PEM file."""
    fingerprint: str | None = None
    """SHA-256 of the daemon's certificate, which is then trusted regardless of its name and signature."""

    def headers(self) -> dict[str, str]:
        """Return the headers of each request."""
        return {} if self.token is None else {"Authorization": f"Bearer {self.token}"}

    def connect(self, timeout_s: float = TIMEOUT_S) -> http.client.HTTPConnection:
        """Return a connection; raise ConfigError for an invalid address or file, OSError."""
        scheme, host, port = self._parse()
        if scheme == "http":
            return http.client.HTTPConnection(host, port, timeout=timeout_s)
        connection = http.client.HTTPSConnection(host, port, timeout=timeout_s, context=self._context())
        if self.fingerprint is not None:
            try:
                connection.connect()
                self._check_fingerprint(connection)
            except BaseException:
                connection.close()
                raise
        return connection

    def _parse(self) -> tuple[str, str, int]:
        try:
            parts = urlsplit(self.url)
            port = parts.port
        except ValueError as error:
            raise ConfigError(_ADDRESS_RULE, hint="", value=self.url, reason=str(error)) from error
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ConfigError(_ADDRESS_RULE, hint="", value=self.url)
        return parts.scheme, parts.hostname, port or (80 if parts.scheme == "http" else 443)

    def _context(self) -> ssl.SSLContext:
        try:
            context = ssl.create_default_context(cafile=self.ca_file)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.cert_file is not None:
                context.load_cert_chain(self.cert_file)
        except (OSError, ValueError) as error:
            raise ConfigError(
                "a certificate for the connection to the daemon cannot be used",
                hint="Check --ca-file and --cert-file; the latter must contain a certificate and its key.",
                ca_file=self.ca_file,
                cert_file=self.cert_file,
                reason=getattr(error, "strerror", None) or str(error),
            ) from error
        if self.fingerprint is not None:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # check the fingerprint before sending anything
        return context

    def _check_fingerprint(self, connection: http.client.HTTPSConnection) -> None:
        from daemon.http.transport.tls import fingerprint_of

        assert isinstance(connection.sock, ssl.SSLSocket)
        if fingerprint_of(connection.sock.getpeercert(binary_form=True) or b"") != self.fingerprint:
            raise Transient("another server answers at the daemon's address", url=self.url)


def running_daemon(state_dir: Path) -> DaemonAddress | None:
    """Return the address that the daemon with this state directory has written; None if there is none.

    The daemon may have died since.
    """
    try:
        written = orjson.loads((state_dir / ADDRESS_FILE).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return None
    if not isinstance(written, dict):
        return None
    fingerprint = written.get("certificate")
    url = f"{'https' if fingerprint else 'http'}://{_host(written)}:{written.get('port')}"
    try:
        token = (state_dir / TOKEN_FILE).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        token = None  # of another user: public answers of the daemon are readable nevertheless
    return DaemonAddress(url, token, fingerprint=fingerprint)


def require_daemon(config_path: Path | None, daemon: DaemonAddress | None) -> DaemonAddress:
    """Return ``daemon`` or, if it is None, the address of the daemon with the configured state directory.
    Raises Transient if none runs.
    """
    if daemon is not None:
        return daemon
    state_dir = load_config(config_path).state.dir
    found = running_daemon(state_dir)
    if found is None:
        raise Transient(
            "no daemon is running",
            hint="Start one with 'tideline run', or name the address of another with --url.",
            state_dir=str(state_dir),
        )
    return found


def daemon_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--url`` and its companions, passed as ``daemon``: a DaemonAddress, or None without ``--url``."""

    @wraps(command)
    def call(
        *args: Any,
        url: str | None,
        token_file: Path | None,
        ca_file: str | None,
        cert_file: str | None,
        **others: Any,
    ) -> Any:
        daemon = None
        if url is not None:
            daemon = DaemonAddress(url, _read_token(token_file), ca_file, cert_file)
        return command(*args, daemon=daemon, **others)

    file = click.Path(dir_okay=False)
    options = [
        click.option(
            "--url",
            envvar="TIDELINE_URL",
            help="Address of the daemon, such as https://host:8470 (default: from the state directory).",
        ),
        click.option(
            "--token-file",
            envvar="TIDELINE_TOKEN_FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="File with the token for --url.",
        ),
        click.option(
            "--ca-file",
            envvar="TIDELINE_CA_FILE",
            type=file,
            help="Authority that signed the daemon's certificate (default: the system's authorities).",
        ),
        click.option(
            "--cert-file",
            envvar="TIDELINE_CERT_FILE",
            type=file,
            help="Certificate of this client with its key, as one PEM file.",
        ),
    ]
    for option in reversed(options):
        call = option(call)
    return call


def _read_token(path: Path | None) -> str | None:
    """Return the first token of a file."""
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            lines = file.read(TOKEN_BYTES_MAX).decode("ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            "the token file cannot be read",
            hint="",
            path=str(path),
            reason=getattr(error, "strerror", None) or "it has characters outside of ASCII",
        ) from None
    tokens = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    if not tokens:
        raise ConfigError("the token file has no token", hint="", path=str(path))
    return tokens[0]


def _host(written: Mapping[str, Any]) -> str:
    host = str(written.get("host"))
    return f"[{host}]" if ":" in host else host
