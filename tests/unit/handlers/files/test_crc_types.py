"""Copies that are verified with one type of CRC first."""

from __future__ import annotations

import zlib

import google_crc32c
import pytest

from handlers.files.copying.checksums import Checksum, Digest, parse_checksum
from handlers.files.copying.origins import CrcTypes
from handlers.files.paths import Location, parse_location
from state.errors import FilesUnavailable


HERE, THERE = map(parse_location, ("hdfs://here:8020/w/f", "hdfs://there:8020/w/f"))
CRC32C, CRC32 = f"{google_crc32c.value(b'abc'):08x}", f"{zlib.crc32(b'abc'):08x}"


class Source:
    """A file that counts how often it is read again."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.reads = 0

    def read(self, digest: Digest) -> None:
        self.reads += 1
        digest.update(self.content)


def parse(recorded: str) -> Checksum:
    checksum = parse_checksum(HERE, recorded)
    assert checksum is not None
    return checksum


def copy(types: CrcTypes, recorded: str, copied: bytes, source: Source, location: Location = HERE) -> bool:
    checksum = parse(recorded)
    digest = types.new_digest(location, checksum)
    digest.update(copied)
    return types.is_recorded(location, checksum, digest, source.read)


def test_a_file_with_the_default_type_is_read_once() -> None:
    source = Source(b"abc")
    assert copy(CrcTypes(), CRC32C, b"abc", source)
    assert source.reads == 0


def test_only_the_first_file_with_the_other_type_on_a_file_system_is_read_twice() -> None:
    types, source = CrcTypes(), Source(b"abc")
    for _ in range(3):
        assert copy(types, CRC32, b"abc", source)
    assert source.reads == 1
    assert copy(types, CRC32C, b"abc", source)
    assert copy(types, CRC32, b"abc", source, THERE)
    assert source.reads == 2, "another file system is asked for itself"


def test_other_content_is_never_the_recorded_one() -> None:
    types = CrcTypes()
    assert not copy(types, CRC32, b"abd", Source(b"abd"))
    assert not copy(types, CRC32, b"abd", Source(b"abc")), "the second reading is right, but the copy is not"
    assert not copy(types, CRC32, b"abc", Source(b"abd"))


def test_a_checksum_of_one_kind_is_not_read_again() -> None:
    location = parse_location("file:/w/f")
    checksum = parse_checksum(location, "0" * 32)
    assert checksum is not None
    source = Source(b"abc")
    digest = CrcTypes().new_digest(location, checksum)
    assert not CrcTypes().is_recorded(location, checksum, digest, source.read)
    assert source.reads == 0


def test_a_source_that_cannot_be_read_again_is_an_error() -> None:
    def fail(_: Digest) -> None:
        raise FilesUnavailable("no route to the DataNode")

    checksum, types = parse(CRC32), CrcTypes()
    with pytest.raises(FilesUnavailable, match="no route"):
        types.is_recorded(HERE, checksum, types.new_digest(HERE, checksum), fail)
