"""Writes and restores backups of the state directory.

A backup is a directory with a copy of every state file and a manifest with their sizes and SHA-256. Each copy
is a consistent state of one part of the daemon. A position and its effects are in the same file, so the
copies need not be from the same moment.

A restored file is older than the systems that it describes. The effect is the same as after the loss of the
state, with less to repeat: relays continue from the end of their topics, and catalogs read events again. A
replica's state has the epoch of its claim on the target. When the daemon starts, it claims the target with a
higher epoch (``position.target_claim``), which fences an instance that still runs with the replaced state. If
the target has changed since the backup, the facts about its tables on the target replace those of the backup.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from daemon.state_directory.directory import STATUS_FILE, open_stores, sync_directory, write_atomically
from state.errors import BadInput, FilesUnavailable, InvalidRequest, StateCorrupt
from state.store.sqlite_copy import copy_database, publish
from state.store.sqlite_file import translate_errors


MANIFEST: Final = "manifest.json"
FORMAT: Final = 1
MANIFEST_BYTES_MAX: Final = 16 * 1024 * 1024
_STATE_FILE: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,250}\.db")
_CHUNK_BYTES: Final = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BackedUpFile:
    """One file of a backup."""

    name: str
    size_bytes: int
    sha256: str


def write_backup(state_dir: Path, target: Path, beat: Callable[[], None] = lambda: None) -> dict[str, Any]:
    """Copy every state file, even if it is in use, to the new directory ``target``; return the manifest.

    It writes the manifest last: a directory without it is not a backup. Raises InvalidRequest if the
    directory is not empty, FilesUnavailable and StateCorrupt.
    """
    _make_empty(target)
    files = []
    with translate_errors(str(target), was_open=True):
        for source in sorted(state_dir.glob("*.db")):
            _copy(source, target / source.name, beat)
            files.append(_describe(target / source.name, beat))
    manifest = {
        "format": FORMAT,
        "time_s": round(time.time()),
        "host": socket.gethostname(),
        "state_dir": str(state_dir),
        "files": [asdict(file) for file in files],
    }
    write_atomically(target / MANIFEST, manifest)
    return manifest


def read_backup(source: Path, beat: Callable[[], None] = lambda: None) -> list[BackedUpFile]:
    """Return the files of a backup; raise BadInput if it is incomplete or differs from its manifest."""
    path = source / MANIFEST
    try:
        if path.stat().st_size > MANIFEST_BYTES_MAX:
            raise BadInput("the manifest of the backup is too large", path=str(path))
        manifest = json.loads(path.read_bytes())
        files = [BackedUpFile(**file) for file in manifest["files"]]
        is_known = manifest["format"] == FORMAT
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise BadInput(
            "the directory does not contain a backup", path=str(path), reason=str(error)
        ) from error
    if not is_known or not all(_STATE_FILE.fullmatch(file.name) for file in files):
        raise BadInput("another version of Tideline wrote the backup", path=str(path))
    for file in files:
        if _describe(source / file.name, beat) != file:
            raise BadInput("a file of the backup has changed since the backup", path=str(source / file.name))
        _require_sound(source / file.name)
    return files


def restore_backup(source: Path, state_dir: Path) -> dict[str, Any]:
    """Replace the state files with those of a backup.

    Returns the restored files and the directory of the replaced ones. It changes nothing unless the backup is
    complete and undamaged. It moves all files of the former state into a new directory inside the state
    directory. The caller holds the lock of the state directory. Repeating this after a crash completes it.
    """
    files = read_backup(source)
    with translate_errors(str(state_dir), was_open=True):
        drafts = [
            (_draft(source / file.name, state_dir / f"{file.name}.restored"), file.name) for file in files
        ]
        replaced = _set_aside(state_dir)
        for draft, name in drafts:
            publish(draft, state_dir / name)
    return {"restored": [file.name for file in files], "replaced": str(replaced) if replaced else None}


def _make_empty(target: Path) -> None:
    try:
        target.mkdir(mode=0o700, parents=True, exist_ok=True)
        if any(target.iterdir()):
            raise InvalidRequest(
                "the directory for a backup must be empty",
                directory=str(target),
                hint="Name a new directory.",
            )
    except OSError as error:
        raise FilesUnavailable(
            "the directory for the backup cannot be created", directory=str(target), reason=error.strerror
        ) from error


def _copy(source: Path, target: Path, beat: Callable[[], None]) -> None:
    store = open_stores().get(str(source))
    if store is not None:
        store.back_up(target, beat)
        return
    address = f"file:{quote(str(source))}?mode=ro"
    with closing(sqlite3.connect(address, uri=True, timeout=30, isolation_level=None)) as connection:
        copy_database(connection, target, beat)


def _describe(path: Path, beat: Callable[[], None]) -> BackedUpFile:
    digest, size_bytes = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK_BYTES):
                digest.update(chunk)
                size_bytes += len(chunk)
                beat()
    except OSError as error:
        raise BadInput(
            "a file of the backup cannot be read", path=str(path), reason=error.strerror
        ) from error
    return BackedUpFile(path.name, size_bytes, digest.hexdigest())


def _require_sound(path: Path) -> None:
    address = f"file:{quote(str(path))}?mode=ro&immutable=1"
    with translate_errors(str(path)), closing(sqlite3.connect(address, uri=True)) as connection:
        finding = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if finding != "ok":
        raise StateCorrupt("a file of the backup is damaged", path=str(path), reason=finding)


def _draft(source: Path, draft: Path) -> Path:
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with source.open("rb") as content, os.fdopen(descriptor, "wb") as file:
        shutil.copyfileobj(content, file, _CHUNK_BYTES)
    return draft


def _set_aside(state_dir: Path) -> Path | None:
    """Move the files of the former state into a new directory and return it; None if there are none."""
    former = sorted(_former_files(state_dir))
    if not former:
        return None
    replaced = state_dir / f"replaced-{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{secrets.token_hex(4)}"
    replaced.mkdir(mode=0o700)
    for path in former:
        path.rename(replaced / path.name)
    sync_directory(replaced)
    sync_directory(state_dir)
    return replaced


def _former_files(state_dir: Path) -> Iterator[Path]:
    for pattern in ("*.db", "*.db-wal", "*.db-shm", STATUS_FILE):
        yield from state_dir.glob(pattern)
