"""Finds which of many directories have something in them, without one call for each where that would take minutes.

In an object store, one call takes tens of milliseconds. A few directories are looked up one by one, because the directory above them may have a
million others. For more, the directories above them are listed, each once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from handlers.files.filesystems import FileSystems
    from handlers.files.paths import Location


_SINGLE_MAX: Final = 50


def find_filled(files: FileSystems, root: Location, names: Sequence[str]) -> list[str]:
    """Return those of the relative paths ``names`` that are directories below ``root`` with something in them, in order.

    Raises UnsafePath for a path that leads elsewhere, and FilesUnavailable.
    """
    likely = names if len(names) <= _SINGLE_MAX else _find_listed(files, root, names)
    return [name for name in likely if has_entries(files, root.join(name))]


def has_entries(files: FileSystems, directory: Location) -> bool:
    """Whether a directory exists and has something in it."""
    return bool(_list_names(files, directory))


def _find_listed(files: FileSystems, root: Location, names: Sequence[str]) -> Iterable[str]:
    """Return the paths whose components are in the listings of the directories above them."""
    listed: dict[str, frozenset[str]] = {}

    def is_listed(above: str, name: str) -> bool:
        if above not in listed:
            listed[above] = _list_names(files, root.join(above) if above else root)
        return name in listed[above]

    def exists(path: str) -> bool:
        parts = path.split("/")
        return all(is_listed("/".join(parts[:depth]), part) for depth, part in enumerate(parts))

    return filter(exists, names)


def _list_names(files: FileSystems, directory: Location) -> frozenset[str]:
    try:
        return frozenset(entry.name for entry in files.of(directory).list(directory))
    except NotFound:
        return frozenset()
