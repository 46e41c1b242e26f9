"""Pinned jars: lock files, and downloads into a cache that all clones share.

A lock (``locks/*.lock``) lists jars as ``group:artifact:version[:classifier] sha256``, one per line, sorted
and without an address; ``maven_repository`` finds the repository. An artifact of another type is named as
``group:artifact:version@zip``. A jar gets its final name only by a rename after its checksum has been
verified, so every file in the cache is complete. An interrupted download resumes where it stopped. Several
processes may fetch at once: the part file of each jar is locked.
"""

from __future__ import annotations

import concurrent.futures
import fcntl
import hashlib
import http.client
import os
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dev.stack.errors import FetchFailed


LOCKS = Path(__file__).parent.parent / "locks"
WORKERS = 6
ATTEMPTS = 4
BACKOFF_S = 0.5
TIMEOUT_S = 60.0
CHUNK_BYTES = 1 << 18


@dataclass(frozen=True, slots=True, order=True)
class Jar:
    """One pinned artifact."""

    coordinates: str
    sha256: str

    @property
    def path(self) -> str:
        """The path below the root of a Maven repository and of the cache."""
        named, _, kind = self.coordinates.partition("@")
        group, artifact, version, *classifier = named.split(":")
        name = "-".join([artifact, version, *classifier])
        return f"{group.replace('.', '/')}/{artifact}/{version}/{name}.{kind or 'jar'}"


Progress = Callable[[Jar, int], None]


def cache_dir() -> Path:
    """Return ``$TIDELINE_CACHE``, or ``~/.cache/tideline``."""
    return Path(os.environ.get("TIDELINE_CACHE") or Path.home() / ".cache" / "tideline")


def read_lock(name: str, directory: Path = LOCKS) -> tuple[Jar, ...]:
    """Return the jars of ``locks/<name>.lock`` in the order of the class path."""
    return parse_lock((directory / f"{name}.lock").read_text(), name)


def parse_lock(text: str, name: str) -> tuple[Jar, ...]:
    """Parse a lock.

    Raises FetchFailed if a line is not ``group:artifact:version[:classifier] sha256`` or is repeated.
    """
    jars: dict[str, Jar] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        jar = _parse_line(line, f"{name}.lock line {number}")
        if jar.coordinates in jars:
            raise FetchFailed(f"{name}.lock line {number}: {jar.coordinates} is pinned twice")
        jars[jar.coordinates] = jar
    return tuple(jars.values())


def _parse_line(line: str, where: str) -> Jar:
    coordinates, _, digest = line.strip().partition(" ")
    parts = coordinates.split(":")
    if len(parts) not in {3, 4} or not all(parts) or "/" in coordinates or ".." in coordinates:
        raise FetchFailed(f"{where}: '{coordinates}' is not group:artifact:version[:classifier][@type]")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise FetchFailed(f"{where}: '{digest}' is not a sha256 in lower-case hex")
    return Jar(coordinates, digest)


def locate_jars(jars: Iterable[Jar], cache: Path | None = None) -> list[Path]:
    """Return the paths of the jars in the cache."""
    root = (cache or cache_dir()) / "jars"
    return [root / jar.path for jar in jars]


def find_missing(jars: Iterable[Jar], cache: Path | None = None) -> list[Jar]:
    """Return the jars that are not in the cache."""
    root = (cache or cache_dir()) / "jars"
    return [jar for jar in jars if not (root / jar.path).exists()]


def fetch(
    jars: Iterable[Jar], repository: str, cache: Path | None = None, progress: Progress | None = None
) -> int:
    """Download the missing jars into the cache; return their number.

    Calls ``progress`` with the number of new bytes of a jar, from several threads. Raises FetchFailed, which
    names the jar, if the repository does not have it, does not respond in four attempts, or sends different
    content.
    """
    root = (cache or cache_dir()) / "jars"
    absent = find_missing(jars, cache)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        running = [
            pool.submit(_fetch_one, jar, repository, root, progress or (lambda _jar, _size: None))
            for jar in absent
        ]
        try:
            for each in concurrent.futures.as_completed(running):
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return len(absent)


def _fetch_one(jar: Jar, repository: str, root: Path, progress: Progress) -> None:
    final = root / jar.path
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_name(f"{final.name}.part")
    with part.open("ab+") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        if final.exists():
            return
        _download(jar, f"{repository}/{jar.path}", out, progress)
        if _sha256(out) != jar.sha256:
            out.truncate(0)
            raise FetchFailed(
                f"{jar.coordinates}: sha256 mismatch: the repository sent different content than was pinned"
            )
        part.replace(final)


def _download(jar: Jar, url: str, out: BinaryIO, progress: Progress) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            _append(url, out, lambda size: progress(jar, size))
        except (OSError, http.client.HTTPException) as error:
            final_answer = isinstance(error, urllib.error.HTTPError) and error.code in {401, 403, 404, 410}
            if final_answer or attempt == ATTEMPTS:
                raise FetchFailed(
                    f"{jar.coordinates}: {error}. To use another repository, set MAVEN_REPO_URL"
                ) from error
            time.sleep(BACKOFF_S * 2**attempt)
        else:
            return


def _append(url: str, out: BinaryIO, progress: Callable[[int], None]) -> None:
    have = out.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310 (maven_repository checks the scheme)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310 (as above)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # the part is complete: the checksum decides
    with answer:
        if have and answer.status != 206:
            out.truncate(0)
        while chunk := answer.read(CHUNK_BYTES):
            out.write(chunk)
            progress(len(chunk))
    out.flush()
    expected = answer.headers.get("Content-Length")
    if expected and out.tell() - (have if answer.status == 206 else 0) < int(expected):
        raise http.client.IncompleteRead(b"", int(expected))


def _sha256(file: BinaryIO) -> str:
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK_BYTES):
        digest.update(chunk)
    return digest.hexdigest()
