"""Where the content of a source file may be found.

At the path that the event recorded, or, when that is missing, unreadable or has other content, at the change manager's copy
``<cmroot>/<name>_<checksum>`` (ReplChangeManager.getFileInfo; reference: hive-replication §1.6). Where the recorded checksum cannot be
recomputed here (``checksums``), the order is the other way round: a file of that name in the change manager *is* the recorded
content, while the source path could hold a successor of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.files.checksums import expected_md5
from handlers.files.paths import AllowedRoots, Location, cm_path, parse


if TYPE_CHECKING:
    from handlers.events import SourceFile


@dataclass(frozen=True, slots=True)
class Origin:
    """One place to read from."""

    location: Location
    from_change_manager: bool
    md5: str | None
    """What its bytes must hash to; None where that cannot be told."""


def origins_of(source: SourceFile, allowed: AllowedRoots) -> list[Origin]:
    """Return where the content of ``source`` may be, in the order to try: one or two places.

    Raises UnsafePath where a place lies outside ``allowed``.
    """
    recorded = allowed.require(parse(source.uri))
    md5 = expected_md5(recorded, source.checksum)
    original = Origin(recorded, from_change_manager=False, md5=md5)
    if source.checksum is None or source.cm_root is None:
        return [original]
    kept = allowed.require(cm_path(parse(source.cm_root), recorded.name, source.checksum))
    recycled = Origin(kept, from_change_manager=True, md5=expected_md5(kept, source.checksum))
    return [original, recycled] if md5 is not None else [recycled, original]
