"""Writes ``locks/<name>.lock`` from ``locks/<name>.pom.xml``. Only writing a lock needs Maven, using it does
not.

Maven resolves the versions of a class path (for Kafka with all transitive dependencies). The lock records its
choice and the checksums of the downloaded jars.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from dev.stack.downloads.jars import LOCKS, Jar
from dev.stack.errors import Missing


MAVEN = ["mvn", "--quiet", "--batch-mode", "--no-transfer-progress"]
# A line of the listing has group, artifact, type, an optional classifier, version and scope, separated by
# colons.
_LISTED = re.compile(
    r"^\s+([\w.-]+):([\w.-]+):(jar|zip|tar\.gz):(?:([\w.-]+):)?([\w.-]+):(?:compile|runtime)\b", re.MULTILINE
)


def write_lock(name: str, directory: Path = LOCKS) -> int:
    """Write ``<name>.lock`` and return the number of its jars; raise Missing without Maven."""
    if shutil.which("mvn") is None:
        raise Missing("writing a lock requires Maven: install it (Debian: apt-get install maven)")
    pom = directory / f"{name}.pom.xml"
    with tempfile.TemporaryDirectory() as scratch:
        jars = _resolve(pom, Path(scratch))
    lines = [f"{jar.coordinates} {jar.sha256}\n" for jar in sorted(jars)]
    (directory / f"{name}.lock").write_text("".join(lines))
    return len(lines)


def _resolve(pom: Path, scratch: Path) -> list[Jar]:
    listing, repository = scratch / "list", scratch / "repository"
    _run_maven(pom, "dependency:list", f"-DoutputFile={listing}")
    _run_maven(
        pom,
        "dependency:copy-dependencies",
        "-Dmdep.useRepositoryLayout=true",
        f"-DoutputDirectory={repository}",
    )
    plain = re.sub(r"\x1b\[[0-9;]*m", "", listing.read_text())
    coordinates = [_write_coordinates(*found) for found in _LISTED.findall(plain)]
    return [Jar(each, _sha256(repository / Jar(each, "").path)) for each in coordinates]


def _write_coordinates(group: str, artifact: str, kind: str, classifier: str, version: str) -> str:
    named = ":".join(filter(None, (group, artifact, version, classifier)))
    return named if kind == "jar" else f"{named}@{kind}"


def _run_maven(pom: Path, goal: str, *options: str) -> None:
    subprocess.run([*MAVEN, "--file", str(pom), goal, "-DincludeScope=runtime", *options], check=True)


def _sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()
