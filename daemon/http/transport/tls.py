"""TLS of a listener: its certificate, and the authority that signs those of clients.

The listener reads the files again when they change, so that a renewed certificate needs no restart. A client
may come without a certificate: it may have a token, and the access check refuses requests with neither
(``daemon.http.access``).
"""

from __future__ import annotations

import hashlib
import ssl
from pathlib import Path

import structlog

from state.errors import ConfigError


log = structlog.get_logger(__name__)


class ServerTls:
    """The TLS context of a listener. Raises ConfigError if a file cannot be used at the start."""

    def __init__(self, certificate: Path, key: Path, client_ca: Path | None = None) -> None:
        self._files = (certificate, key)
        self._client_ca = client_ca
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._version = self._stat()
        self._load()
        if client_ca is not None:
            self.context.verify_mode = ssl.CERT_OPTIONAL

    def refresh(self) -> None:
        """Read certificate and key again if they have changed. Files that do not fit leave the old ones."""
        try:
            version = self._stat()
            if version == self._version:
                return
            self._version = version
            self._load()
        except ConfigError as error:
            log.warning("the certificate cannot be renewed", problem=str(error))
            return
        log.info("the certificate was reloaded", path=str(self._files[0]))

    def fingerprint(self) -> str:
        """Return the SHA-256 of the certificate, by which commands on this machine recognise the daemon."""
        return fingerprint_of(ssl.PEM_cert_to_DER_cert(_first_certificate(self._files[0].read_text())))

    def _load(self) -> None:
        certificate, key = self._files
        try:
            self.context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
            if self._client_ca is not None:
                self.context.load_verify_locations(self._client_ca)
        except (OSError, ValueError) as error:
            raise self._error(error) from error

    def _stat(self) -> tuple[int, ...]:
        try:
            return tuple(path.stat().st_mtime_ns for path in self._files)
        except OSError as error:
            raise self._error(error) from error

    def _error(self, error: Exception) -> ConfigError:
        return ConfigError(
            "the TLS files cannot be used",
            hint="Give a certificate and its unencrypted key as PEM files that the daemon's user can read.",
            key="http.tls",
            value=", ".join(str(path) for path in (*self._files, self._client_ca) if path is not None),
            reason=getattr(error, "strerror", None) or str(error),
        )


def fingerprint_of(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER."""
    return hashlib.sha256(certificate).hexdigest()


def _first_certificate(pem: str) -> str:
    begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
    return pem[pem.index(begin) : pem.index(end) + len(end)]


def _refuse_encrypted_key() -> str:
    raise ValueError("the private key must not be encrypted")
