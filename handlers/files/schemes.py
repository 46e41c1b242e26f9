"""Which file system a URI's scheme means, and how it is started from its options."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.arrow import ArrowFiles, PathOf
from handlers.files.filesystems import Factory, FileSystems
from handlers.files.local import open_local
from state.errors import ConfigError


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.files.paths import Location


def to_bucket_path(location: Location) -> str:
    """``s3a://bucket/key`` is ``bucket/key`` to the library."""
    return location.authority + location.path


def to_absolute_path(location: Location) -> str:
    """``hdfs://nn/a`` is ``/a`` on the file system of ``nn``."""
    return location.path


def open_s3(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make an S3 file system; ``options`` are ``pyarrow.fs.S3FileSystem``'s, such as ``endpoint_override``."""
    return _open_with_pyarrow("S3FileSystem", authority, options, object_store=True)


def open_gcs(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make a Google Cloud Storage file system; ``options`` are ``pyarrow.fs.GcsFileSystem``'s."""
    return _open_with_pyarrow("GcsFileSystem", authority, options, object_store=True)


def open_azure(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make the file system of ``container@account.dfs.core.windows.net``; ``options`` are ``pyarrow.fs.AzureFileSystem``'s."""
    container, _, host = authority.partition("@")
    named = {"account_name": host.partition(".")[0], **options}
    return _open_with_pyarrow(
        "AzureFileSystem", authority, named, path_of=lambda place: container + place.path, object_store=True
    )


def open_hdfs(authority: str, options: Mapping[str, object]) -> ArrowFiles:
    """Make an HDFS file system; needs Hadoop's ``libhdfs``. ``options`` are ``pyarrow.fs.HadoopFileSystem``'s."""
    host, _, port = authority.rpartition("@")[2].partition(":")
    named = {"host": host or "default", **({"port": int(port)} if port.isdigit() else {}), **options}
    return _open_with_pyarrow(
        "HadoopFileSystem", authority, named, path_of=to_absolute_path, object_store=False
    )


def _open_with_pyarrow(
    kind: str,
    authority: str,
    options: Mapping[str, object],
    *,
    path_of: PathOf = to_bucket_path,
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
    "file": open_local,
    "hdfs": open_hdfs,
    "s3": open_s3,
    "s3a": open_s3,
    "s3n": open_s3,
    "gs": open_gcs,
    "abfs": open_azure,
    "abfss": open_azure,
}


def open_file_systems(options: Mapping[str, Mapping[str, object]] | None = None) -> FileSystems:
    """Return the registry of all known schemes; ``options`` maps a scheme to the options of its file systems.

    Raises ConfigError for options of an unknown scheme; wrong options show when a file system is first used.
    """
    return FileSystems(FACTORIES, options)
