"""TLS of the endpoint: its own certificate for clients, and the authorities by which it checks the metastore.

Certificates and keys are files in PEM format, because that is how they are rotated. They are read once, at the start.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from state.errors import ConfigError


if TYPE_CHECKING:
    from pathlib import Path


def server_context(
    certificate: Path | None, key: Path | None, client_ca: Path | None
) -> ssl.SSLContext | None:
    """Return how clients connect: with this certificate, and with one signed by ``client_ca`` if it is given.

    None if no file is given. Raises ConfigError.
    """
    if certificate is None:
        if key is not None or client_ca is not None:
            raise ConfigError("a key or an authority for clients requires --tls-certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key, password=_refuse_encrypted_key)
        if client_ca is not None:
            context.load_verify_locations(client_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ValueError) as error:
        raise _unusable(error, certificate, key, client_ca) from error
    return context


def client_context(ca: Path | None, *, enabled: bool) -> ssl.SSLContext | None:
    """Return how the metastore is connected to: its certificate must be signed by ``ca``, or by an authority of the system.

    The host name in the certificate is always checked. None without TLS. Raises ConfigError.
    """
    if ca is None and not enabled:
        return None
    try:
        context = ssl.create_default_context(cafile=None if ca is None else str(ca))
    except (OSError, ValueError) as error:
        raise _unusable(error, ca) from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _refuse_encrypted_key() -> str:
    raise ValueError("the private key must not be encrypted")


def _unusable(error: Exception, *files: Path | None) -> ConfigError:
    return ConfigError(
        "the files for TLS cannot be used",
        files=[str(file) for file in files if file is not None],
        reason=str(error) or type(error).__name__,
        hint="Check that they are readable and in PEM format.",
    )
