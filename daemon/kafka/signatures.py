"""Signatures of records, by which readers recognize the records of their source's relay.

A relay signs each record with HMAC-SHA256. The signature covers the name of the source and the value, which
contains the event id and the part. Readers therefore refuse a record of another source even if both have the
same key. If another program writes a signed record again, it is a duplicate of its event, and has no effect.

The relay signs with the first key. Readers accept all keys, so that an operator can replace a key while the
topic has records of the old one.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from daemon.config.settings.clusters import SourceConfig


HEADER: Final = "tideline.signature"
_PURPOSE: Final = b"tideline.record\0"


@dataclass(frozen=True, slots=True)
class Signatures:
    """Signs and checks the records of one source."""

    source: str
    keys: tuple[bytes, ...] = field(repr=False)
    """The signing key, followed by other keys that are accepted."""

    def sign(self, value: bytes) -> tuple[str, bytes]:
        """Return the header that signs ``value``."""
        return HEADER, self._compute(self.keys[0], value)

    def are_valid(self, value: bytes | None, headers: Iterable[tuple[str, bytes | None]]) -> bool:
        """Return whether ``headers`` sign ``value`` with one of the keys."""
        given = next((found for name, found in headers if name == HEADER), None)
        if given is None or value is None:
            return False
        return any(hmac.compare_digest(given, self._compute(key, value)) for key in self.keys)

    def _compute(self, key: bytes, value: bytes) -> bytes:
        signed = b"%b%b\0%b" % (_PURPOSE, self.source.encode(), value)
        return hmac.digest(key, signed, "sha256").hex().encode()


def source_signatures(name: str, source: SourceConfig) -> Signatures | None:
    """Return the signatures of source ``name``; None if its records are not signed."""
    if source.signing is None:
        return None
    secrets = (source.signing.key, *source.signing.accept)
    return Signatures(name, tuple(secret.get_secret_value().encode() for secret in secrets))
