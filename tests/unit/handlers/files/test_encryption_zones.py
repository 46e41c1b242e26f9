"""Files that HDFS stores encrypted: recognised by a client without key server, and copied without the
checksum of the stored bytes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from handlers.events import SourceFile
from handlers.files.copying.copies import Copier, CopyTask
from handlers.files.filesystems import FileSystems
from handlers.files.paths import AllowedRoots, Location, parse_location
from handlers.files.systems.encryption_zones import OLD_PROVIDER, PROVIDER, find_provider
from handlers.files.systems.hdfs import HdfsFiles
from handlers.files.systems.local import LocalFiles
from state.errors import FileLost, FilesUnavailable, NotFound


FILE = parse_location("hdfs://nn/zone/f")
NO_PROVIDER = (
    "File is in an HDFS encryption zone but no KMS provider is configured (set `x` in core-site.xml)"
)


class Client:
    """A client of ``hdfs-native`` whose files open, or fail with one error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    def read(self, path: str) -> Client:
        del path
        if self.error is not None:
            raise self.error
        return self

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("blind", "is_encrypted"),
    [(Client(RuntimeError(NO_PROVIDER)), True), (Client(), False), (None, False)],
)
def test_a_file_is_encrypted_if_a_client_without_key_server_cannot_open_it(
    blind: Client | None, is_encrypted: bool
) -> None:
    assert HdfsFiles(Client(), blind).is_encrypted(FILE) is is_encrypted


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FileNotFoundError("gone"), NotFound),
        (RuntimeError("RPCError: the NameNode is in standby"), FilesUnavailable),
    ],
)
def test_a_file_that_cannot_be_opened_for_another_reason_does_not_count_as_plain(
    error: Exception, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        HdfsFiles(Client(), Client(error)).is_encrypted(FILE)


@pytest.mark.parametrize(
    ("error", "message", "hint"),
    [
        (RuntimeError(f'OperationFailed("{NO_PROVIDER}")'), "no key server is configured", PROVIDER),
        (NotImplementedError("File encryption"), "cannot decrypt", "hdfs-native"),
        (
            RuntimeError('RPCError("org.apache.hadoop.hdfs.UnknownCryptoProtocolVersionException", "No")'),
            "cannot decrypt",
            "hdfs-native",
        ),
        (RuntimeError('OperationFailed("KMS HTTP error: refused")'), "the key server", "access lists"),
    ],
)
def test_an_encrypted_file_that_cannot_be_read_is_unavailable_and_says_why(
    error: Exception, message: str, hint: str
) -> None:
    with pytest.raises(FilesUnavailable, match=message) as refused:
        HdfsFiles(Client(error)).open(FILE)
    assert hint in str(refused.value)


@pytest.mark.parametrize(
    ("options", "files", "address"),
    [
        ({}, {}, ""),
        ({}, {OLD_PROVIDER: "kms://old"}, "kms://old"),
        ({}, {OLD_PROVIDER: "kms://old", PROVIDER: "kms://new"}, "kms://new"),
        ({OLD_PROVIDER: "kms://own"}, {PROVIDER: "kms://new"}, "kms://own"),
    ],
)
def test_the_key_server_is_found_under_both_names_and_options_take_precedence(
    options: Mapping[str, str], files: Mapping[str, str], address: str, tmp_path: Path
) -> None:
    rows = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in files.items()
    )
    (tmp_path / "core-site.xml").write_text(f"<configuration>{rows}</configuration>")
    assert find_provider(options, tmp_path) == address


class Zone(LocalFiles):
    """A local directory in place of HDFS, whose checksums are those of other bytes."""

    def __init__(self, root: Path, *, encrypted: bool) -> None:
        super().__init__(fsync=False)
        self._root = root
        self._encrypted = encrypted

    def stat(self, location: Location) -> Any:
        return super().stat(self._place(location))

    def open(self, location: Location) -> Any:
        return super().open(self._place(location))

    def list(self, location: Location) -> Any:
        return super().list(self._place(location))

    def is_encrypted(self, location: Location) -> bool:
        self.stat(location)
        return self._encrypted

    def _place(self, location: Location) -> Location:
        return parse_location(f"file:{self._root}{location.path}")


STORED = "00000200" + "00" * 8 + "ab" * 16
"""A checksum of HDFS that no plain bytes here have."""


@pytest.mark.parametrize("from_change_manager", [False, True])
def test_the_checksum_of_an_encrypted_file_is_unknown(tmp_path: Path, *, from_change_manager: bool) -> None:
    for name in ("zone", "cm"):
        (tmp_path / name).mkdir()
    place = f"cm/f_{STORED}" if from_change_manager else "zone/f"
    (tmp_path / place).write_bytes(b"plain")
    source = SourceFile("hdfs://nn/zone/f", STORED, "hdfs://nn/cm")
    task = CopyTask(source, f"file:{tmp_path}/copy")

    def copier(*, encrypted: bool) -> Copier:
        systems = FileSystems(
            {
                "hdfs": lambda _authority, _options: Zone(tmp_path, encrypted=encrypted),
                "file": lambda _authority, _options: LocalFiles(fsync=False),
            }
        )
        return Copier(systems, AllowedRoots.of(["hdfs://nn/"]))

    with pytest.raises(FileLost):
        copier(encrypted=False).copy(task)
    copied = copier(encrypted=True).copy(task)
    assert (tmp_path / "copy").read_bytes() == b"plain"
    assert (copied.from_change_manager, copied.mismatches) == (from_change_manager, 0)
    assert copier(encrypted=True).copy(task).skipped
