"""Jars without Maven: a pinned list, fetched in parallel, checked, shared by all clones of a machine.

A lock (``locks/*.lock``) names every jar as ``group:artifact:version[:classifier] sha256``, one a line, sorted, without
any address; where the jars come from is ``repository.py``'s business. A jar is stored under its final name only by a
rename after its checksum was right, so what is in the cache is complete, and a broken-off download goes on where it
stopped. Several processes may fetch at once: each jar's part file is locked.
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
        """Its place below a Maven repository's root, and below the cache's."""
        group, artifact, version, *classifier = self.coordinates.split(":")
        name = "-".join([artifact, version, *classifier])
        return f"{group.replace('.', '/')}/{artifact}/{version}/{name}.jar"


Progress = Callable[[Jar, int], None]


def cache_dir() -> Path:
    """``$TIDELINE_CACHE``, else ``~/.cache/tideline``."""
    return Path(os.environ.get("TIDELINE_CACHE") or Path.home() / ".cache" / "tideline")


def read_lock(name: str, directory: Path = LOCKS) -> tuple[Jar, ...]:
    """The jars of ``locks/<name>.lock``, in its order, which is the order of the class path."""
    return parse_lock((directory / f"{name}.lock").read_text(), name)


def parse_lock(text: str, name: str) -> tuple[Jar, ...]:
    """Raises FetchFailed when a line is not ``group:artifact:version[:classifier] sha256`` or comes twice."""
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
        raise FetchFailed(f"{where}: '{coordinates}' is not group:artifact:version[:classifier]")
    if len(digest) != 64 or set(digest) - set("0123456789abcdef"):
        raise FetchFailed(f"{where}: '{digest}' is not a sha256 in lower-case hex")
    return Jar(coordinates, digest)


def class_path(jars: Iterable[Jar], cache: Path | None = None) -> list[Path]:
    """Where the jars lie once they were fetched."""
    root = (cache or cache_dir()) / "jars"
    return [root / jar.path for jar in jars]


def missing(jars: Iterable[Jar], cache: Path | None = None) -> list[Jar]:
    """Those that the cache does not hold."""
    root = (cache or cache_dir()) / "jars"
    return [jar for jar in jars if not (root / jar.path).exists()]


def fetch(
    jars: Iterable[Jar], repository: str, cache: Path | None = None, progress: Progress | None = None
) -> int:
    """Bring the missing jars into the cache; returns how many came.

    ``progress`` is told every jar's new bytes, from several threads. Raises FetchFailed, which names the jar, when the
    repository has not got it, does not answer after four attempts, or sends something else.
    """
    root = (cache or cache_dir()) / "jars"
    wanted = missing(jars, cache)
    with concurrent.futures.ThreadPoolExecutor(WORKERS) as pool:
        running = [
            pool.submit(_fetch_one, jar, repository, root, progress or (lambda _jar, _size: None))
            for jar in wanted
        ]
        try:
            for each in concurrent.futures.as_completed(running):
                each.result()
        finally:
            pool.shutdown(cancel_futures=True)
    return len(wanted)


def _fetch_one(jar: Jar, repository: str, root: Path, progress: Progress) -> None:
    final = root / jar.path
    final.parent.mkdir(parents=True, exist_ok=True)
    part = final.with_suffix(".part")
    with part.open("ab+") as out:
        fcntl.flock(out, fcntl.LOCK_EX)
        if final.exists():
            return
        _download(jar, f"{repository}/{jar.path}", out, progress)
        if _sha256(out) != jar.sha256:
            out.truncate(0)
            raise FetchFailed(
                f"{jar.coordinates}: sha256 mismatch: the repository sent something else than was pinned"
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
                    f"{jar.coordinates}: {error}. Another repository: set MAVEN_REPO_URL"
                ) from error
            time.sleep(BACKOFF_S * 2**attempt)
        else:
            return


def _append(url: str, out: BinaryIO, progress: Callable[[int], None]) -> None:
    have = out.seek(0, os.SEEK_END)
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})  # noqa: S310 (the scheme is checked in repository.py)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310 (as above)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code != 416:
            raise
        return  # nothing is left to fetch: the checksum decides
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
