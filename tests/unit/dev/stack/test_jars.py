from __future__ import annotations

import hashlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.stack.downloads import jars
from dev.stack.downloads.jars import Jar, fetch, find_missing, parse_lock, read_lock
from dev.stack.errors import FetchFailed


DIGEST = "a" * 64


class Repository(http.server.BaseHTTPRequestHandler):
    """A Maven repository in memory; it understands ranges, and can break off or refuse on demand."""

    files: ClassVar[dict[str, bytes]] = {}
    requests: ClassVar[list[tuple[str, str | None]]] = []
    break_after: ClassVar[int | None] = None

    def do_GET(self) -> None:  # noqa: N802 (the library's name)
        wanted = self.headers.get("Range")
        self.requests.append((self.path, wanted))
        body = self.files.get(self.path)
        if body is None:
            self.send_error(404)
            return
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        end, Repository.break_after = Repository.break_after, None
        self.wfile.write(body[start:end])

    def log_message(self, *_: object) -> None:
        """Quiet."""


@pytest.fixture
def repository(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    Repository.files, Repository.requests, Repository.break_after = {}, [], None
    monkeypatch.setattr(jars, "BACKOFF_S", 0.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Repository) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/root"
        server.shutdown()
        thread.join()


def published(coordinates: str, body: bytes) -> Jar:
    jar = Jar(coordinates, hashlib.sha256(body).hexdigest())
    Repository.files[f"/root/{jar.path}"] = body
    return jar


def test_a_lock_line_names_a_jar_with_its_path_and_checksum() -> None:
    (jar,) = parse_lock(f"# pinned\n\norg.apache.hive:hive-exec:4.2.0:core {DIGEST}\n", "x")
    assert jar == Jar("org.apache.hive:hive-exec:4.2.0:core", DIGEST)
    assert jar.path == "org/apache/hive/hive-exec/4.2.0/hive-exec-4.2.0-core.jar"


def test_an_archive_is_named_with_its_type() -> None:
    (archive,) = parse_lock(f"io.trino:trino-server-core:476@tar.gz {DIGEST}\n", "x")
    assert archive.path == "io/trino/trino-server-core/476/trino-server-core-476.tar.gz"


@pytest.mark.parametrize(
    "line",
    [
        f"group:artifact {DIGEST}",
        f"group:artifact:1:2:3 {DIGEST}",
        f"group::1 {DIGEST}",
        f"group:../artifact:1 {DIGEST}",
        "group:artifact:1",
        "group:artifact:1 abc",
        f"group:artifact:1 {DIGEST.upper()}",
        f"group:artifact:1 {DIGEST} more",
    ],
)
def test_a_line_that_is_not_a_pinned_jar_is_refused_with_its_number(line: str) -> None:
    with pytest.raises(FetchFailed, match=r"x\.lock line 2"):
        parse_lock(f"# first\n{line}\n", "x")


def test_a_jar_pinned_twice_is_refused() -> None:
    with pytest.raises(FetchFailed, match="twice"):
        parse_lock(f"g:a:1 {DIGEST}\ng:a:1 {DIGEST}\n", "x")


@given(st.text(max_size=200))
def test_any_text_is_a_lock_or_a_typed_refusal(text: str) -> None:
    try:
        parsed = parse_lock(text, "x")
    except FetchFailed:
        return
    assert all(len(jar.sha256) == 64 and ".." not in jar.path for jar in parsed)


@pytest.mark.parametrize("name", ["kafka", "hive", "compiler", "spark-hudi", "trino"])
def test_the_locks_are_sorted_complete_and_without_addresses(name: str) -> None:
    pinned = read_lock(name)
    assert pinned == tuple(sorted(pinned))
    assert "/" not in (jars.LOCKS / f"{name}.lock").read_text()


def test_only_missing_jars_are_fetched(repository: str, tmp_path: Path) -> None:
    first, second = published("g:a:1", b"one"), published("g:b:1", b"two")
    assert fetch([first], repository, tmp_path) == 1
    assert find_missing([first, second], tmp_path) == [second]
    assert fetch([first, second], repository, tmp_path) == 1
    assert [path for path, _ in Repository.requests] == [f"/root/{first.path}", f"/root/{second.path}"]


def test_content_other_than_pinned_is_refused_and_not_stored(repository: str, tmp_path: Path) -> None:
    jar = published("g:a:1", b"one")
    Repository.files[f"/root/{jar.path}"] = b"other"
    with pytest.raises(FetchFailed, match="g:a:1: sha256 mismatch"):
        fetch([jar], repository, tmp_path)
    assert find_missing([jar], tmp_path) == [jar]
    Repository.files[f"/root/{jar.path}"] = b"one"
    assert fetch([jar], repository, tmp_path) == 1


def test_an_interrupted_download_resumes_where_it_stopped(repository: str, tmp_path: Path) -> None:
    jar = published("g:a:1", b"0123456789")
    Repository.break_after = 4
    assert fetch([jar], repository, tmp_path) == 1
    assert [wanted for _, wanted in Repository.requests] == [None, "bytes=4-"]
    assert jars.locate_jars([jar], tmp_path)[0].read_bytes() == b"0123456789"


def test_a_jar_missing_in_the_repository_is_named_without_retries(repository: str, tmp_path: Path) -> None:
    with pytest.raises(FetchFailed, match=r"g:gone:1.*404.*MAVEN_REPO_URL"):
        fetch([Jar("g:gone:1", DIGEST)], repository, tmp_path)
    assert len(Repository.requests) == 1


def test_progress_counts_every_byte(repository: str, tmp_path: Path) -> None:
    jar = published("g:a:1", b"x" * 1000)
    seen: list[int] = []
    fetch([jar], repository, tmp_path, progress=lambda _jar, size: seen.append(size))
    assert sum(seen) == 1000
