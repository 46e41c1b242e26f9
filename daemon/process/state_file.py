"""The state file of one part: a SQLite store in the state directory, named after the part."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.store.sqlite import SqliteStore


if TYPE_CHECKING:
    from pathlib import Path


VERSION: Final = 1
"""Schema version of the store in these files."""


def state_path(directory: Path, kind: str, name: str) -> Path:
    """Return the path of a part's state; names are checked with the configuration and need no escaping."""
    return directory / f"{kind}-{name}.db"


def open_state(directory: Path, kind: str, name: str) -> SqliteStore:
    """Open a part's state, or create it; raise StateLocked, StateCorrupt."""
    return SqliteStore(state_path(directory, kind, name), schema_version=VERSION)
