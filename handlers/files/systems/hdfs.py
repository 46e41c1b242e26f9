"""HDFS through ``hdfs-native``, a client in Rust: no JVM and no libhdfs.

Publishing takes three steps: write a hidden file in the same directory, close it, and rename it over its
final name in one call. Readers see the old file or the new one, never neither. After closing, every DataNode
of the pipeline has acknowledged every byte, but may have it in memory only; the names are in the NameNode's
synced edit log. ``hsync`` is not called: it waits for a disk on each DataNode and for each file, it does not
exist for erasure-coded files, and ``dfs.datanode.synconclose`` gives the same to clusters that need it.

The client reads ``core-site.xml`` and ``hdfs-site.xml`` from ``HADOOP_CONF_DIR``, so that name services with
several NameNodes work as for other Hadoop programs. Options of ``files.options.hdfs`` are Hadoop settings
under their own names and take precedence. Four further options belong to the client: ``config_dir``,
``kerberos_principal``, ``kerberos_keytab`` and ``kerberos_cache``.

The client repeats calls while a NameNode does not answer, for three minutes by default. Tideline repeats
failed work itself and reports it, so the client makes only a few attempts unless the options say otherwise.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from handlers.files.filesystems import Chunk, Entry, FileState, ReadStream, WriteStream, make_temporary_name
from handlers.files.paths import Location, printable
from handlers.files.systems.encryption_zones import PROVIDER, find_provider, find_zone_error, is_encrypted
from state.errors import ConfigError, FilesUnavailable, NotFound, Refused, TidelineError, UnsafePath


OWN_OPTIONS: Final = ("config_dir", "kerberos_principal", "kerberos_keytab", "kerberos_cache")
ATTEMPTS: Final = {"dfs.client.failover.max.attempts": "3"}
REASON_CHARS_MAX: Final = 300
_DENIED: Final = re.compile(r"AccessControlException|Permission denied|InvalidToken|GSSAPI|Kerberos|SASL")
_NOT_A_FILE: Final = "Path is not a file"


def open_hdfs(authority: str, options: Mapping[str, object]) -> HdfsFiles:
    """Open the HDFS of a NameNode (``host:port``),
    of a name service, or, without authority, of ``fs.defaultFS``.
    """
    return _open("hdfs", authority, options)


def open_viewfs(authority: str, options: Mapping[str, object]) -> HdfsFiles:
    """Open a mount table of ``fs.viewfs.mounttable.*``."""
    return _open("viewfs", authority, options)


def _open(scheme: str, authority: str, options: Mapping[str, object]) -> HdfsFiles:
    import hdfs_native

    own = {key: str(options[key]) for key in OWN_OPTIONS if key in options}
    settings = ATTEMPTS | {key: _to_text(value) for key, value in options.items() if key not in own}
    provider = find_provider(settings, Path(own["config_dir"]) if "config_dir" in own else None)

    def connect(provider: str) -> Any:
        url = f"{scheme}://{authority}" if authority else None
        return hdfs_native.Client(url, settings | {PROVIDER: provider}, **own)

    try:
        return HdfsFiles(connect(provider), connect("") if provider else None)
    except (RuntimeError, OSError, ValueError, TypeError) as error:
        raise ConfigError(
            "the file system cannot be opened",
            kind=scheme,
            authority=authority,
            options=sorted(options),
            reason=_first_line(error),
            hint="Set HADOOP_CONF_DIR, or Hadoop's own settings under files.options.hdfs.",
        ) from error


def _to_text(value: object) -> str:
    """Return a setting as Hadoop writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


class HdfsFiles:
    """Files on HDFS."""

    def __init__(self, client: Any, blind: Any = None) -> None:
        """``blind`` is a client without key server. It is None if no key server is configured; encrypted
        files are then unreadable.
        """
        self._client = client
        self._blind = blind
        umask = os.umask(0)
        os.umask(umask)
        self._directory_mode, self._file_mode = 0o777 & ~umask, 0o666 & ~umask

    def stat(self, location: Location) -> FileState:
        """Return size and time of a file."""
        with _translate_errors(location):
            status = self._client.get_file_info(location.path)
        if status.isdir:
            raise Refused("the path is not a regular file", path=printable(str(location)))
        return FileState(status.length, status.modification_time * 1_000_000)

    def list(self, location: Location) -> Sequence[Entry]:
        """Return the children."""
        with _translate_errors(location):
            statuses = list(self._client.list_status(location.path))
        if len(statuses) == 1 and statuses[0].path == location.path and not statuses[0].isdir:
            raise NotFound("not a directory", path=printable(str(location)))
        return sorted(
            Entry(each.path.rpartition("/")[2], each.isdir, each.length, each.modification_time * 1_000_000)
            for each in statuses
        )

    def open(self, location: Location) -> HdfsReader:
        """Open a file."""
        with _translate_errors(location):
            return HdfsReader(self._client.read(location.path), location)

    def is_encrypted(self, location: Location) -> bool:
        """Return whether a file is in an encryption zone."""
        with _translate_errors(location):
            return self._blind is not None and is_encrypted(self._blind, location)

    # ARG002: required by the port; nothing to reserve here
    def create(self, location: Location, size_bytes: int) -> HdfsWriter:  # noqa: ARG002
        """Start a hidden file next to ``location``."""
        import hdfs_native

        hidden = location.parent.child(make_temporary_name())
        options = hdfs_native.WriteOptions(permission=self._file_mode, create_parent=False)
        with _translate_errors(location):
            try:
                stream = self._client.create(hidden.path, options)
            except (
                FileNotFoundError
            ):  # most files go to a directory that exists, and each call takes a round trip
                self._client.mkdirs(location.parent.path, self._directory_mode, create_parent=True)
                stream = self._client.create(hidden.path, options)
        return HdfsWriter(self._client, stream, hidden, location)

    def make_directory(self, location: Location) -> None:
        """Create a directory."""
        with _translate_errors(location):
            self._client.mkdirs(location.path, self._directory_mode, create_parent=True)

    def remove(self, location: Location) -> None:
        """Remove a file."""
        with _translate_errors(location), contextlib.suppress(FileNotFoundError):
            self._client.delete(location.path)

    def remove_tree(self, location: Location) -> None:
        """Remove a directory."""
        with _translate_errors(location), contextlib.suppress(FileNotFoundError):
            self._client.delete(location.path, recursive=True)

    def settle(self, directory: Location) -> None:
        """Do nothing: the NameNode logs a rename before it answers."""

    # ARG002: required by the port
    def transfer(self, source: ReadStream, target: WriteStream, size_bytes: int) -> int:  # noqa: ARG002
        """Return 0: bytes pass through this process."""
        return 0


class HdfsReader:
    """An open file."""

    def __init__(self, stream: Any, location: Location) -> None:
        self._stream = stream
        self._location = location

    def readinto(self, buffer: memoryview, /) -> int:
        """Fill ``buffer``."""
        data = self.read_chunk(buffer)
        buffer[: len(data)] = data
        return len(data)

    def read_chunk(self, buffer: memoryview, /) -> bytes:
        """Return the client's bytes, without a copy to ``buffer``."""
        with _translate_errors(self._location):
            data: bytes = self._stream.read(len(buffer))
        return data

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()


class HdfsWriter:
    """A file under a hidden name until published."""

    def __init__(self, client: Any, stream: Any, hidden: Location, final: Location) -> None:
        self._client = client
        self._stream = stream
        self._hidden = hidden
        self._final = final
        self._published = False

    def write(self, data: Chunk, /) -> None:
        """Append ``data``."""
        with _translate_errors(self._final):
            # The client reads a view item by item, which takes ten times as long.
            self._stream.write(data if isinstance(data, bytes) else bytes(data))

    def publish(self) -> None:
        """Complete the file and rename it over its final name."""
        with _translate_errors(self._final):
            self._stream.close()
            self._client.rename(self._hidden.path, self._final.path, overwrite=True)
        self._published = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._published:
            return
        with _translate_errors(self._final), contextlib.suppress(FileNotFoundError):
            self._client.delete(self._hidden.path)


@contextlib.contextmanager
def _translate_errors(location: Location) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, ValueError) as error:
        raise _to_tideline_error(error, location) from error


def _to_tideline_error(error: Exception, location: Location) -> TidelineError:
    """Return the error of Tideline's tree;
    the client reports a remote exception as a RuntimeError with its class name.
    """
    path, text = printable(str(location)), str(error)
    if (zone_error := find_zone_error(error, location)) is not None:
        return zone_error
    if _NOT_A_FILE in text:
        return Refused("the path is not a regular file", path=path)
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return NotFound("no such file or directory", path=path)
    reason = _first_line(error)
    if "TooLongException" in text or "InvalidPathException" in text:  # a name of over 255 bytes; a colon
        return UnsafePath("the file system does not allow the name", path=path, reason=reason)
    if isinstance(error, PermissionError) or _DENIED.search(text):
        return FilesUnavailable(
            "the file system denied access",
            path=path,
            reason=reason,
            hint="Check the user, its ticket or keytab, and its rights in HDFS; Tideline tries again.",
        )
    return FilesUnavailable("the file system failed", path=path, reason=reason)


def _first_line(error: Exception) -> str:
    """Return the failure, without the NameNode's stack trace."""
    return printable(re.split(r"\n|\\n", str(error), maxsplit=1)[0][:REASON_CHARS_MAX])
