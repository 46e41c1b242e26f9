"""The locations where the content of a source file is expected, and the error if none of them has it.

The path that the event recorded comes first, unless the checksum cannot be recomputed here. In that case the change manager comes first: a
file of that name *is* the recorded content, while the source path may hold a successor of the same size.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.files.copying.checksums import Checksum, parse_checksum
from handlers.files.copying.transfer import ContentDiffers, SourceFailed
from handlers.files.paths import AllowedRoots, Location, build_cm_path, parse_location, printable
from state.errors import FileLost, FilesUnavailable, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from handlers.events import SourceFile


@dataclass(frozen=True, slots=True)
class Origin:
    """One location to read the content from."""

    location: Location
    from_change_manager: bool
    checksum: Checksum | None
    """The checksum that its bytes must have; None if there is none that can be verified."""


def list_origins(source: SourceFile, allowed: AllowedRoots, *, is_encrypted: bool = False) -> list[Origin]:
    """Return the one or two locations of the content of ``source``, in the order to try them.

    The checksum of an encrypted file is that of its stored bytes, so it cannot be verified. Raises UnsafePath if a location lies
    outside ``allowed``.
    """
    recorded = allowed.require(parse_location(source.uri))
    checksum = None if is_encrypted else parse_checksum(recorded, source.checksum)
    original = Origin(recorded, from_change_manager=False, checksum=checksum)
    if source.checksum is None or source.cm_root is None:
        return [original]
    kept = allowed.require(build_cm_path(parse_location(source.cm_root), recorded.name, source.checksum))
    kept_checksum = None if is_encrypted else parse_checksum(kept, source.checksum)
    recycled = Origin(kept, from_change_manager=True, checksum=kept_checksum)
    return [original, recycled] if checksum is not None else [recycled, original]


def choose_error(source: SourceFile, origins: list[Origin], failures: list[Exception]) -> TidelineError:
    """Return the error for a copy that failed: a transient one if there is any, else a refused one, and only then FileLost."""
    causes = [failure.__cause__ for failure in failures if isinstance(failure, SourceFailed)]
    for kind in (FilesUnavailable, Refused):
        for cause in causes:
            if isinstance(cause, kind) and not isinstance(cause, NotFound):
                return cause
    others = [
        cause for cause in causes if isinstance(cause, TidelineError) and not isinstance(cause, NotFound)
    ]
    if others:
        return others[0]
    differing = sum(isinstance(failure, ContentDiffers) for failure in failures)
    if differing and all(origin.checksum is None for origin in origins):
        return FilesUnavailable("the source file changes while it is copied", path=printable(source.uri))
    return FileLost(
        "the source file is gone or has other content, and the change manager has no copy",
        path=printable(source.uri),
        checksum=source.checksum,
        cm_root=source.cm_root,
        differing=differing,
    )
