"""The address of a metastore, as users write it, and defaults of connections. Loads no Thrift library."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from state.errors import ConfigError


SCHEME: Final = "thrift"
TLS_SCHEME: Final = "thrift+tls"
DEFAULT_PORT: Final = 9083
REPLY_BYTES_MAX: Final = 512 * 1024 * 1024
"""The largest answer that a client reads into memory."""


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
