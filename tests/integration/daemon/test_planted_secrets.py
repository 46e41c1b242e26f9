"""Forty secrets of a running daemon are in none of its outputs, although a metastore repeats its login."""

from __future__ import annotations

import base64
import json
import os
import socketserver
import struct
import subprocess
import threading
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml

from tests.builders.daemon.loops import eventually
from tests.builders.daemon.tideline_process import COMMAND, tideline


KAFKA = (
    "sasl.password",
    "ssl.key.password",
    "ssl.keystore.password",
    "sasl.oauthbearer.client.secret",
    "sasl.oauthbearer.config",
)
FILES = {
    "s3a": ("secret_key", "session_token"),
    "gs": ("access_token",),
    "abfs": ("account_key", "sas_token", "client_secret"),
    "hdfs": tuple(f"fs.s3a.bucket.b{number}.secret.key" for number in range(26)),
}
PAGES = ("/", "/api/v1/status", "/metrics", "/livez", "/readyz", "/flat", "/api/v1/openapi.json")
COMMANDS = (
    ("status",),
    ("status", "--json"),
    ("config", "show"),
    ("config", "show", "--json"),
    ("config", "check", "--live"),
    ("config", "check", "--live", "--json"),
    ("dlq", "list"),
    ("keys", "list"),
    ("verify", "shop"),
    ("bootstrap", "shop", "--plan"),
    ("--debug", "dlq", "list"),
)


class Planted:
    """Secrets of the configuration, with characters that libraries quote."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def new(self, owner: str) -> str:
        """Return a new secret."""
        text = f'Hush{len(self.texts):02}/p+s=s&w"{len(self.texts):02}'
        self.texts[owner] = text
        return text

    def forms(self) -> Iterator[tuple[str, bytes]]:
        """Yield every text by which a secret could be printed, with its owner."""
        for owner, text in self.texts.items():
            encoded = base64.b64encode(text.encode()).decode()
            for form in {
                text,
                quote(text, safe=""),
                json.dumps(text)[1:-1],
                repr(text)[1:-1],
                encoded,
                text[:8],
            }:
                yield owner, form.encode()

    def require_absent(self, where: str, content: bytes) -> None:
        found = [(owner, form) for owner, form in self.forms() if form in content]
        assert not found, (where, found[:3])


class RepeatsTheLogin(socketserver.BaseRequestHandler):
    """A metastore that refuses a login and repeats it in its message, as real ones have done."""

    def handle(self) -> None:
        sent = b""
        while True:
            head = self._read(5)
            if head is None:
                return
            payload = self._read(struct.unpack(">I", head[1:])[0]) or b""
            sent += payload
            if head[0] != 1:  # everything but the name of the mechanism
                break
        text = b"no such login: " + sent.replace(b"\x00", b" ")
        self.request.sendall(struct.pack(">BI", 3, len(text)) + text)

    def _read(self, size: int) -> bytes | None:
        content = b""
        while len(content) < size:
            chunk = self.request.recv(size - len(content))
            if not chunk:
                return None
            content += chunk
        return content


class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True


@pytest.fixture
def metastore() -> Iterator[str]:
    with Server(("127.0.0.1", 0), RepeatsTheLogin) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield f"thrift://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


@pytest.fixture
def planted() -> Planted:
    return Planted()


@pytest.fixture
def environment() -> dict[str, str]:
    return {}


@pytest.fixture
def config(
    kafka: str, topic: str, tmp_path: Path, metastore: str, planted: Planted, environment: dict[str, str]
) -> Path:
    """A configuration with secrets in files and, every other one, in variables."""
    (tmp_path / "secrets").mkdir()

    def plant(owner: str) -> dict[str, str]:
        number, text = len(planted.texts), planted.new(owner)
        if number % 2:
            environment[f"PLANTED_{number}"] = text
            return {"env": f"PLANTED_{number}"}
        path = tmp_path / "secrets" / str(number)
        path.write_text(text)
        return {"file": str(path)}

    def cluster(name: str) -> dict[str, Any]:
        return {
            "metastore": [metastore],
            "auth": {"mechanism": "plain", "user": "tideline", "password": plant(name)},
        }

    lake = cluster("source")
    values: dict[str, Any] = {
        "sources": {"lake": {**lake, "topic": topic, "read_roots": ["s3a://bucket/warehouse"]}},
        # One server has one login.
        "targets": {
            "dr": {
                "metastore": [metastore.replace("127.0.0.1", "localhost")],
                "auth": cluster("target")["auth"],
            }
        },
        "policies": {
            "shop": {"source": "lake", "target": "dr", "database": "shop", "target_database": "shop_r"}
        },
        "catalog": {"lake": {"rules": {"all": {"tables": ["*.*"]}}}},
        "kafka": {
            "bootstrap": kafka,
            "options": {"sasl.username": "me", "client.rack": "a"},
            "secrets": {name: plant(f"kafka {name}") for name in KAFKA},
            "dead_letter_topic": f"{topic}.dead",
        },
        "files": {"secrets": {s: {n: plant(f"{s} {n}") for n in names} for s, names in FILES.items()}},
        "keylog": {"url": "mysql://me@127.0.0.1:1/keys", "password": plant("keylog")},
        "mining": {
            "every_s": 1,
            "raw_tables": {"web.raw": {"json_column": "json"}},
            "sources": {"reports": {"kind": "sql-files", "path": str(tmp_path), "user": "ann"}},
        },
        "state": {"dir": str(tmp_path / "state")},
        "http": {"port": 0},
        "logs": {"level": "debug", "format": "json", "repeat_s": 0},
        "supervisor": {"backoff_min_s": 0.05, "backoff_max_s": 0.2, "attempts_max": 2},
    }
    path = tmp_path / "tideline.yaml"
    path.write_text(yaml.safe_dump(values))
    assert len(planted.texts) == 40
    return path


@pytest.fixture
def running(config: Path, environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    with (config.parent / "daemon.log").open("wb") as log:
        process = subprocess.Popen(
            [*COMMAND, "run", "-c", str(config)], stdout=log, stderr=log, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(60)
        finally:
            process.kill()


def process_arguments(pid: int) -> bytes:
    """Return the arguments of a process and of those that it started and that have not ended."""
    found = Path(f"/proc/{pid}/cmdline").read_bytes()
    for task in Path(f"/proc/{pid}/task").iterdir():
        children = list[str]()
        with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
            children = (task / "children").read_text().split()
        for child in children:
            with suppress(FileNotFoundError, ProcessLookupError):
                found += process_arguments(int(child))
    return found


def fetch(address: Mapping[str, Any], path: str) -> bytes:
    try:
        with urllib.request.urlopen(
            f"http://{address['host']}:{address['port']}{path}", timeout=30
        ) as answer:
            return bytes(answer.read())
    except urllib.error.HTTPError as error:
        return error.read()


def test_planted_secrets_are_in_no_output(
    running: subprocess.Popen[bytes],
    config: Path,
    planted: Planted,
    environment: Mapping[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    state, log = config.parent / "state", config.parent / "daemon.log"
    eventually(lambda: (state / "http.json").exists() or running.poll() is not None, pause_s=0.05)
    address = json.loads((state / "http.json").read_text())
    # Three loops have the server's answer, with a mask where it repeats the password.
    eventually(lambda: fetch(address, "/api/v1/status").count(b"no such login") > 2, pause_s=0.05)
    for path in PAGES:
        planted.require_absent(path, fetch(address, path))
    planted.require_absent("arguments", process_arguments(running.pid))
    for command in COMMANDS:
        done = tideline(config, *command)
        planted.require_absent(" ".join(command), (done.stdout + done.stderr).encode())
    running.terminate()
    running.wait(60)
    planted.require_absent("log", log.read_bytes())
    files = [file for file in state.rglob("*") if file.is_file()]
    assert "status.json" in {file.name for file in files}
    for file in files:
        planted.require_absent(str(file), file.read_bytes())
        assert file.stat().st_mode & 0o077 == 0, file
