"""The locations of a source file's content, its proof, and the error if no location has it.

The path that the event recorded comes first, unless this machine cannot compute the checksum. In that case
the change manager comes first: a file of that name *is* the recorded content, while the source path may hold
a successor of the same size.

A recorded checksum of HDFS lacks the type of its CRC. The default is CRC32C; clusters that began before
Hadoop 2 have CRC32. Both cost three times as much as CRC32C alone (``checksums``), so a copy computes only
that one at first. If it does not prove the content, it reads the source again with both. A file system that
turns out to have files of the other type gets both from then on, and needs no second reading. The answer is
always the one that both types give on the bytes copied: the second reading counts only if the CRC32C of both
readings is the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.files.copying.checksums import Checksum, parse_checksum
from handlers.files.copying.transfer import ContentDiffers, SourceFailed
from handlers.files.paths import AllowedRoots, Location, build_cm_path, parse_location, printable
from state.errors import FileLost, FilesUnavailable, NotFound, Refused, TidelineError


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.events import SourceFile
    from handlers.files.copying.checksums import Digest


@dataclass(frozen=True, slots=True)
class FileOrigin:
    """One location to read the content from."""

    location: Location
    from_change_manager: bool
    checksum: Checksum | None
    """The checksum that its bytes must have; None without a verifiable one."""


def list_origins(
    source: SourceFile, allowed: AllowedRoots, *, is_encrypted: bool = False
) -> list[FileOrigin]:
    """Return the one or two locations of the content of ``source``, in the order to try them.

    The checksum of an encrypted file is useless, because it is the checksum of the stored bytes. Raises
    UnsafePath if a location lies outside ``allowed``.
    """
    recorded = allowed.require(parse_location(source.uri))
    checksum = None if is_encrypted else parse_checksum(recorded, source.checksum)
    original = FileOrigin(recorded, from_change_manager=False, checksum=checksum)
    if source.checksum is None or source.cm_root is None:
        return [original]
    cm_path = allowed.require(build_cm_path(parse_location(source.cm_root), recorded.name, source.checksum))
    cm_checksum = None if is_encrypted else parse_checksum(cm_path, source.checksum)
    recycled = FileOrigin(cm_path, from_change_manager=True, checksum=cm_checksum)
    return [original, recycled] if checksum is not None else [recycled, original]


def choose_error(source: SourceFile, origins: list[FileOrigin], failures: list[Exception]) -> TidelineError:
    """Return the error for a failed copy: a transient one if there is any, otherwise a refusal if there is
    any, otherwise FileLost.
    """
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
        return FilesUnavailable("the source file changes during the copy", path=printable(source.uri))
    return FileLost(
        "the source file is gone or has changed, and the change manager has no copy",
        path=printable(source.uri),
        checksum=source.checksum,
        cm_root=source.cm_root,
        differing=differing,
    )


class CrcTypes:
    """Verifies copies for the price of one type of CRC; thread-safe.

    Remembers the file systems that have files with another type of CRC than HDFS's default.
    """

    def __init__(self) -> None:
        self._others: set[tuple[str, str]] = set()

    def new_digest(self, location: Location, checksum: Checksum) -> Digest:
        """Return a digest for the bytes of ``location``, to be passed to ``is_recorded``."""
        if (location.scheme, location.authority) in self._others:
            return checksum.new_digest()
        return checksum.new_default_digest()

    def is_recorded(
        self, location: Location, checksum: Checksum, copied: Digest, read_again: Callable[[Digest], None]
    ) -> bool:
        """Return whether ``copied``, the digest of the bytes copied from ``location``, proves the recorded
        content.

        ``read_again`` adds the content of ``location`` to a digest, and may raise its own errors.
        """
        if copied.proves(checksum.recorded):
            return True
        if checksum.new_default_digest is checksum.new_digest:
            return False
        both = checksum.new_digest()
        read_again(both)
        if both.hexdigest() != copied.hexdigest() or not both.proves(checksum.recorded):
            return False
        self._others.add((location.scheme, location.authority))
        return True
