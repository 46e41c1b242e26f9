"""Maps the scheme of a URI to a file system, and opens file systems with their configured options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from handlers.files.filesystems import Factory, FileSystems
from handlers.files.paths import Location
from handlers.files.systems.arrow import ArrowFiles, PathOf
from handlers.files.systems.hdfs import open_hdfs, open_viewfs
from handlers.files.systems.local import open_local
from state.errors import ConfigError


def to_bucket_path(location: Location) -> str:
    """Return ``bucket/key`` for ``s3a://bucket/key``."""
    return location.authority + location.path


def open_s3(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Open an S3 file system; ``options`` are those of ``pyarrow.fs.S3FileSystem``, such as
    ``endpoint_override``.
    """
    return _open_with_pyarrow("S3FileSystem", authority, options)


def open_gcs(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Open a Google Cloud Storage file system; ``options`` are those of ``pyarrow.fs.GcsFileSystem``."""
    return _open_with_pyarrow("GcsFileSystem", authority, options)


def open_azure(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Open ``container@account.dfs.core.windows.net``; ``options`` are those of
    ``pyarrow.fs.AzureFileSystem``.
    """
    container, _, host = authority.partition("@")
    named = {"account_name": host.partition(".")[0], **options}
    return _open_with_pyarrow(
        "AzureFileSystem",
        authority,
        named,
        path_of=lambda location: container + location.path,
    )


def _open_with_pyarrow(
    kind: str,
    authority: str,
    options: Mapping[str, object],
    *,
    path_of: PathOf = to_bucket_path,
) -> ArrowFiles:
    import pyarrow.fs

    try:
        library = getattr(pyarrow.fs, kind)(**options)
    except (OSError, TypeError, ValueError, ImportError, NotImplementedError) as error:
        raise ConfigError(
            "the file system cannot be opened",
            kind=kind,
            authority=authority,
            options=sorted(options),
            reason=str(error)[:500],
            hint="Use the options of the class in pyarrow.fs.",
        ) from error
    return ArrowFiles(library, path_of, object_store=True)


FACTORIES: Final[Mapping[str, Factory]] = {
    "file": open_local,
    "hdfs": open_hdfs,
    "viewfs": open_viewfs,
    "s3": open_s3,
    "s3a": open_s3,
    "s3n": open_s3,
    "gs": open_gcs,
    "abfs": open_azure,
    "abfss": open_azure,
}


def open_file_systems(
    options: Mapping[str, Mapping[str, object]] | None = None, trusted: Iterable[Location] = ()
) -> FileSystems:
    """Return the registry of all known schemes; ``options`` maps a scheme to the options of its file systems.

    The paths of ``trusted`` directories, which an operator has named, may contain symbolic links.

    Raises ConfigError for options of an unknown scheme. The first use of a file system reports invalid
    options.
    """
    systems = FileSystems(FACTORIES, options)
    systems.trust(trusted)
    return systems
