"""Which file system a URI's scheme means, and how it is started from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.arrow import ArrowFiles, PathOf
from handlers.files.filesystems import Factory, FileSystems
from handlers.files.local import local_files
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.files.paths import Location


def bucket_path(location: Location) -> str:
    """``s3a://bucket/key`` is ``bucket/key`` to the library."""
    return location.authority + location.path


def own_path(location: Location) -> str:
    """``hdfs://nn/a`` is ``/a`` on the file system of ``nn``."""
    return location.path


def s3_files(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make an S3 file system; ``options`` are ``pyarrow.fs.S3FileSystem``'s, such as ``endpoint_override``."""
    return _started("S3FileSystem", authority, options, object_store=True)


def gcs_files(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make a Google Cloud Storage file system; ``options`` are ``pyarrow.fs.GcsFileSystem``'s."""
    return _started("GcsFileSystem", authority, options, object_store=True)


def azure_files(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make the file system of ``container@account.dfs.core.windows.net``; ``options`` are ``pyarrow.fs.AzureFileSystem``'s."""
    container, _, host = authority.partition("@")
    named = {"account_name": host.partition(".")[0], **options}
    return _started(
        "AzureFileSystem", authority, named, path_of=lambda place: container + place.path, object_store=True
    )


def hdfs_files(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make an HDFS file system; needs Hadoop's ``libhdfs``. ``options`` are ``pyarrow.fs.HadoopFileSystem``'s."""
    host, _, port = authority.rpartition("@")[2].partition(":")
    named = {"host": host or "default", **({"port": int(port)} if port.isdigit() else {}), **options}
    return _started("HadoopFileSystem", authority, named, path_of=own_path, object_store=False)


def _started(
    kind: str,
    authority: str,
    options: Mapping[str, object],
    *,
    path_of: PathOf = bucket_path,
    object_store: bool,
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
            hint="Options are those of the class in pyarrow.fs; HDFS also needs libhdfs and a class path.",
        ) from error
    return ArrowFiles(library, path_of, object_store=object_store)


FACTORIES: Final[Mapping[str, Factory]] = {
    "file": local_files,
    "hdfs": hdfs_files,
    "s3": s3_files,
    "s3a": s3_files,
    "s3n": s3_files,
    "gs": gcs_files,
    "abfs": azure_files,
    "abfss": azure_files,
}


def open_file_systems(options: Mapping[str, Mapping[str, object]] | None = None) -> FileSystems:
    """Return the registry of all known schemes; ``options`` maps a scheme to the options of its file systems.

    Raises ConfigError for options of an unknown scheme; wrong options show when a file system is first used.
    """
    return FileSystems(FACTORIES, options)
