"""Bearer tokens in files, each with a name and a role; a file is read again when it has changed.

So an operator can replace a token without a restart: write the new one next to the old one (one per line),
give it to the clients, then remove the old one. A comparison takes constant time, and includes every known
token, so that the time of an answer shows nothing of them.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

import structlog

from state.errors import ConfigError


log = structlog.get_logger(__name__)
CHARACTERS_MIN: Final = 16
FILE_BYTES_MAX: Final = 16 * 1024
CHECK_S: Final = 1.0
"""Shortest interval between two looks at a file."""
_Version = tuple[int, int, int]


class Role(IntEnum):
    """Permissions of a client; a higher role includes the lower ones."""

    VIEW = 1
    """Read everything but the names of users."""
    OPERATE = 2
    """Read everything, and change something."""


@dataclass(frozen=True, slots=True)
class Client:
    """Who sends a request."""

    name: str
    role: Role


ANONYMOUS: Final = Client("anonymous", Role.VIEW)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with tokens, one per line; empty lines and lines that begin with ``#`` are skipped."""

    client: Client
    path: Path


class Tokens:
    """All known tokens; thread-safe. Raises ConfigError if a file cannot be used at the start."""

    def __init__(self, files: Sequence[TokenFile], clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._own: list[tuple[bytes, Client]] = []
        self._files = [_Loaded(file) for file in files]
        for file in self._files:
            file.load()
        self._checked_s = clock()

    def __len__(self) -> int:
        return len(self._files)

    def add_own(self, name: str) -> str:
        """Return a new token with the role *operate*, which no file has."""
        token = secrets.token_urlsafe(32)
        self._own.append((_digest(token), Client(name, Role.OPERATE)))
        return token

    def find(self, token: str) -> Client | None:
        """Return the client that a token belongs to."""
        self._reload()
        given = _digest(token)
        found: Client | None = None
        for digest, client in [*self._own, *(pair for file in self._files for pair in file.tokens)]:
            if hmac.compare_digest(digest, given):
                found = client
        return found

    def _reload(self) -> None:
        with self._lock:
            if self._clock() - self._checked_s < CHECK_S:
                return
            self._checked_s = self._clock()
            for file in self._files:
                file.reload()


class _Loaded:
    """One file, and the tokens that it held when it was last read."""

    def __init__(self, file: TokenFile) -> None:
        self._file = file
        self._version: _Version | None = None
        self.tokens: tuple[tuple[bytes, Client], ...] = ()

    def reload(self) -> None:
        """Read the file if it has changed. A file that can no longer be used has no token."""
        try:
            if self._stat() == self._version:
                return
            self.load()
        except (OSError, ConfigError) as error:
            if self._version is not None or self.tokens:
                log.warning("a token file cannot be used", path=str(self._file.path), problem=str(error))
            self._version, self.tokens = None, ()
            return
        log.info("a token file was reloaded", path=str(self._file.path), tokens=len(self.tokens))

    def load(self) -> None:
        """Read the file; raise ConfigError."""
        try:
            version = self._stat()
            with self._file.path.open("rb") as opened:
                content = opened.read(FILE_BYTES_MAX + 1)
            lines = [line.strip() for line in content.decode("ascii").splitlines()]
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it contains characters other than ASCII"
            raise self._error(reason) from None
        tokens = [line for line in lines if line and not line.startswith("#")]
        if len(content) > FILE_BYTES_MAX:
            raise self._error(f"it has more than {FILE_BYTES_MAX} bytes")
        if not tokens:
            raise self._error("it has no token")
        if any(len(token) < CHARACTERS_MIN or len(token.split()) > 1 for token in tokens):
            raise self._error(f"a token has fewer than {CHARACTERS_MIN} characters, or spaces")
        self.tokens = tuple((_digest(token), self._file.client) for token in tokens)
        self._version = version

    def _stat(self) -> _Version:
        stat = self._file.path.stat()
        return stat.st_mtime_ns, stat.st_size, stat.st_ino

    def _error(self, reason: str) -> ConfigError:
        return ConfigError(
            "the token file cannot be used",
            hint="Write one token per line, such as the output of 'openssl rand -hex 32'.",
            key=f"http.tokens.{self._file.client.name}.file",
            value=str(self._file.path),
            reason=reason,
        )


def _digest(token: str) -> bytes:
    """Return the digest to keep and compare: all digests have the same length, for tokens of any length."""
    return hashlib.sha256(token.encode(errors="replace")).digest()
