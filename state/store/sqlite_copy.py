"""Copies of a state file: one file with everything committed, which appears as a whole.

SQLite's backup interface copies page by page and sees one state of the file, even while another connection
writes. The copy has no separate log: you can move it as one file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final

from state.store.sqlite_file import make_private, split_version


PAGES_PER_STEP: Final = 4096


def copy_before_migration(connection: sqlite3.Connection, path: str, stored: int) -> None:
    """Keep a copy of the file in ``PATH.vFORM-VERSION.bak``, from which an earlier build can run again."""
    form, schema_version = split_version(stored)
    copy_database(connection, Path(f"{path}.v{form}-{schema_version}.bak"))


def copy_database(
    connection: sqlite3.Connection, target: Path, beat: Callable[[], None] = lambda: None
) -> None:
    """Write everything committed to the file ``target``, durably; calls ``beat`` in between.

    Raises OSError and ``sqlite3.Error``.
    """
    draft = Path(f"{target}.tmp")
    draft.unlink(missing_ok=True)
    make_private(str(draft))
    with closing(sqlite3.connect(draft, isolation_level=None)) as copy:
        connection.backup(copy, pages=PAGES_PER_STEP, progress=lambda *_: beat(), sleep=0.01)
        copy.execute("PRAGMA journal_mode = DELETE")
    publish(draft, target)


def publish(draft: Path, target: Path) -> None:
    """Give a file that is complete its final name, durably."""
    for path in (draft, target.parent):
        if path == target.parent:
            draft.replace(target)
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
