"""Fetches packages of the npm registry, without an address in this project. Needs no npm.

The registry is the first that is set of ``$npm_config_registry``, ``registry=`` in ``~/.npmrc``, and the
setting of an installed npm. A package is pinned by its checksum and enters the cache under its final name
only after verification. This module neither installs nor runs a package: it only reads data from the archive.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import subprocess
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from dev.stack.downloads.jars import cache_dir
from dev.stack.errors import FetchFailed, Missing


TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Package:
    """One pinned package."""

    name: str
    """The name with its scope: ``@scope/name``."""
    version: str
    sha256: str

    @property
    def path(self) -> str:
        """The path of the archive below the root of the registry and of the cache."""
        return f"{self.name}/-/{self.name.rpartition('/')[2]}-{self.version}.tgz"


WEBHOOKS = Package(
    "@octokit/webhooks-examples", "7.6.1", "89e6cb1c6345d32e3dd775617fa54effbdc26c859e514898d7728e95e9738280"
)
"""Examples of the events that GitHub sends, by the authors of its client (MIT): a corpus of real JSON."""


def fetch_package(package: Package) -> Path:
    """Return the archive of a package, after downloading it if it is not cached.

    Raises Missing or FetchFailed.
    """
    final = cache_dir() / "npm" / package.path
    if not final.exists():
        content = _download(f"{find_registry()}/{package.path}", package)
        if hashlib.sha256(content).hexdigest() != package.sha256:
            raise FetchFailed(
                f"{package.name}: sha256 mismatch: the registry sent different content than was pinned"
            )
        final.parent.mkdir(parents=True, exist_ok=True)
        part = final.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(content)
        part.replace(final)
    return final


def find_registry() -> str:
    """Return the root of an npm registry, without a trailing slash.

    Raises Missing if the machine defines none.
    """
    root = (
        os.environ.get("npm_config_registry")  # noqa: SIM112 (npm's own spelling)
        or _from_settings(Path.home() / ".npmrc")
        or _from_npm()
    )
    if not root:
        raise Missing(
            "no npm registry is configured: set npm_config_registry to the root of one, or install npm"
        )
    if not root.startswith(("https://", "http://")):
        raise Missing(f"npm_config_registry must start with https:// or http://, not '{root}'")
    return root.rstrip("/")


def _from_settings(settings: Path) -> str | None:
    if not settings.exists():
        return None
    for line in settings.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and name.strip() == "registry":
            return value.strip().strip("\"'")
    return None


def _from_npm() -> str | None:
    if shutil.which("npm") is None:
        return None
    answer = subprocess.run(
        ["npm", "config", "get", "registry"], capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    return answer.stdout.strip() or None


def _download(url: str, package: Package) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:  # noqa: S310 (the scheme is checked above)
            content: bytes = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise FetchFailed(
            f"{package.name} {package.version}: {error}. To use another registry, set npm_config_registry"
        ) from error
    return content
