"""File entries: ``uri#checksum#cmroot#subdir``, as the source's change manager writes them.

Source of the rule: ``ReplChangeManager.encodeFileUri`` (Hive 3.1 and later): there are always three ``#``; checksum and
change manager root are both there or both empty; ``subdir`` is the ACID directory below the table or partition. Hive 2.3
wrote ``uri`` or ``uri#checksum``. A path that holds ``#`` cannot be told apart and is refused, as Hive itself cannot read it.

The ``_v<txn>`` suffix of directories that a compaction wrote stays in ``subdir``: it says where the source's file is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.events import SourceFile
from state.errors import LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.decoding.limits import Limits


def source_files(entries: Iterable[str], limits: Limits) -> tuple[SourceFile, ...]:
    """Read the entries of a file list; raise MalformedEvent and LimitExceeded."""
    return tuple(source_file(entry, limits) for entry in entries)


def source_file(entry: str, limits: Limits) -> SourceFile:
    """Read one entry of Hive 3.1 or later."""
    pieces = entry.split("#")
    if len(pieces) != 4:
        raise MalformedEvent("a file entry is not uri#checksum#cmroot#subdir", entry=entry[:300])
    uri, checksum, cm_root, subdir = pieces
    return _checked(SourceFile(uri, checksum or None, cm_root or None, subdir), limits)


def plain_source_files(entries: Iterable[str], limits: Limits) -> tuple[SourceFile, ...]:
    """Read the entries of Hive 2.3: ``uri`` or ``uri#checksum``."""
    return tuple(_plain_source_file(entry, limits) for entry in entries)


def files_with_checksums(
    uris: tuple[str, ...], checksums: tuple[str, ...], limits: Limits
) -> tuple[SourceFile, ...]:
    """Join the two parallel lists of an insert request; checksums may be missing altogether."""
    if checksums and len(checksums) != len(uris):
        raise MalformedEvent(
            "files and checksums differ in number", files=len(uris), checksums=len(checksums)
        )
    pairs = zip(uris, checksums, strict=True) if checksums else ((uri, "") for uri in uris)
    return tuple(_checked(SourceFile(uri, checksum or None), limits) for uri, checksum in pairs)


def _plain_source_file(entry: str, limits: Limits) -> SourceFile:
    pieces = entry.split("#")
    if len(pieces) > 2:
        return source_file(entry, limits)
    return _checked(SourceFile(pieces[0], (pieces[1] or None) if len(pieces) == 2 else None), limits)


def _checked(file: SourceFile, limits: Limits) -> SourceFile:
    if not file.uri:
        raise MalformedEvent("a file entry has no path")
    longest = max(len(file.uri), len(file.cm_root or ""), len(file.subdir), len(file.checksum or ""))
    if longest > limits.path_chars:
        raise LimitExceeded(
            "a file entry is longer than its limit",
            limit="path_chars",
            limit_chars=limits.path_chars,
            chars=longest,
        )
    return file
