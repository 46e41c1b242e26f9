"""Files in the state directory: one SQLite store for each part, the address of the HTTP server, and the last status."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from state.store.sqlite import SqliteStore


if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from state.store.sqlite import Migration


ADDRESS_FILE: Final = "http.json"
"""Address of the HTTP server, while a daemon is running."""
STATUS_FILE: Final = "status.json"
"""The last status of the daemon."""
VERSION: Final = 1
"""Schema version of the store in these files, unless the part has another."""


def state_path(directory: Path, kind: str, name: str) -> Path:
    """Return the path of a part's state; names are checked with the configuration and need no escaping."""
    return directory / f"{kind}-{name}.db"


def open_state(
    directory: Path,
    kind: str,
    name: str,
    *,
    snapshots: bool = False,
    migrations: Sequence[Migration] = (),
) -> SqliteStore:
    """Open a part's state, or create it, with ``snapshots`` for readers in other threads; raise StateLocked, StateCorrupt.

    ``migrations`` convert a file of version 1 to 2, then 2 to 3, and so on.
    """
    return SqliteStore(
        state_path(directory, kind, name),
        schema_version=VERSION + len(migrations),
        migrations=dict(enumerate(migrations, VERSION)),
        snapshots=snapshots,
    )


def write_atomically(path: Path, value: object) -> None:
    """Write ``value`` as JSON, so that a reader sees either the old or the new contents."""
    draft = path.with_suffix(".tmp")
    draft.write_text(json.dumps(value))
    draft.replace(path)
