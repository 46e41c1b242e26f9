"""Checksums of file entries, computed from bytes in any pieces; real HDFS checks the same in
tests/integration/files/test_hdfs.py."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Callable

import google_crc32c
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.files.copying.checksums import (
    CHUNKS_SPLIT,
    UNITS,
    BlockChecksums,
    CompositeCrc,
    parse_checksum,
)
from handlers.files.paths import parse_location


FILE, HDFS, STORE = map(parse_location, ("file:/w/f", "hdfs://nn:8020/w/f", "s3a://bucket/f"))
RECORDED = "000002000000000000000000b12d964f4bba0b2d859ccea407207e4c"


def naive_checksum(data: bytes, bytes_per_crc: int, crcs_per_block: int, crc: Callable[[bytes], int]) -> str:
    """Compute the checksum as Hadoop's DFSClient does: of all blocks at once."""
    block_bytes = bytes_per_crc * crcs_per_block or max(1, len(data))
    blocks = [data[i : i + block_bytes] for i in range(0, len(data), block_bytes)]
    digests = b"".join(md5(pack_crcs(block, bytes_per_crc, crc)) for block in blocks)
    header = struct.pack(">iq", bytes_per_crc, crcs_per_block)
    return (header + md5_of_buffer(digests)).hex()


def naive_coded_checksum(data: bytes, units: int, cells_per_block: int, crc: Callable[[bytes], int]) -> str:
    """Compute the checksum of an erasure-coded file with chunks of 2 and cells of 6 bytes, as its DataNodes
    do: block by block."""
    group_bytes = 6 * cells_per_block * units or max(1, len(data))
    digests = b""
    for start in range(0, len(data), group_bytes):
        group = data[start : start + group_bytes]
        cells = [group[i : i + 6] for i in range(0, len(group), 6)]
        blocks = [b"".join(cells[unit::units]) for unit in range(min(units, len(cells)))]
        digests += md5_of_buffer(b"".join(md5(pack_crcs(block, 2, crc)) for block in blocks))
    return (struct.pack(">iq", 2, 3 * cells_per_block) + md5_of_buffer(digests)).hex()


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def md5_of_buffer(digests: bytes) -> bytes:
    """Digest the whole buffer of Java that contains ``digests``."""
    buffer = 32
    while buffer < len(digests):
        buffer *= 2
    return md5(digests.ljust(buffer, b"\0"))


def pack_crcs(block: bytes, bytes_per_crc: int, crc: Callable[[bytes], int]) -> bytes:
    crcs = [crc(block[i : i + bytes_per_crc]) for i in range(0, len(block), bytes_per_crc)]
    return struct.pack(f">{len(crcs)}I", *crcs)


@given(
    pieces=st.lists(st.binary(max_size=40)),
    units=st.sampled_from(UNITS),
    cells_per_block=st.integers(0, 3),
    crc=st.sampled_from((google_crc32c.value, zlib.crc32)),
)
def test_an_erasure_coded_file_has_the_checksum_of_its_block_groups(
    pieces: list[bytes], units: int, cells_per_block: int, crc: Callable[[bytes], int]
) -> None:
    digest = BlockChecksums(2, 3 * cells_per_block, cell_bytes=6)
    for piece in pieces:
        digest.update(piece)
    whole = b"".join(pieces)
    assert digest.proves(naive_coded_checksum(whole, units, cells_per_block, crc))
    assert not digest.proves(naive_coded_checksum(whole + b"x", units, cells_per_block, crc))


@given(
    pieces=st.lists(st.binary(max_size=40)),
    bytes_per_crc=st.integers(1, 9),
    crcs_per_block=st.integers(0, 5),
    crc=st.sampled_from((google_crc32c.value, zlib.crc32)),
)
def test_any_pieces_have_the_checksum_of_the_whole(
    pieces: list[bytes], bytes_per_crc: int, crcs_per_block: int, crc: Callable[[bytes], int]
) -> None:
    digest = BlockChecksums(bytes_per_crc, crcs_per_block)
    for piece in pieces:
        digest.update(memoryview(bytearray(piece)))
    recorded = naive_checksum(b"".join(pieces), bytes_per_crc, crcs_per_block, crc)
    assert digest.proves(recorded)
    assert not digest.proves(naive_checksum(b"".join(pieces) + b"x", bytes_per_crc, crcs_per_block, crc))


@pytest.mark.parametrize("bytes_per_crc", [1, 3, 512])
@pytest.mark.parametrize("more", [-1, 0, 1])
@pytest.mark.parametrize("crc", [google_crc32c.value, zlib.crc32])
def test_many_chunks_are_split_at_once_with_the_same_checksum(
    bytes_per_crc: int, more: int, crc: Callable[[bytes], int]
) -> None:
    # S311: reproducible test data
    content = random.Random(7).randbytes(2 * CHUNKS_SPLIT * bytes_per_crc + more)  # noqa: S311
    digest = BlockChecksums(bytes_per_crc, 0)
    digest.update(memoryview(content)[:5])
    digest.update(content[5:])
    assert digest.proves(naive_checksum(content, bytes_per_crc, 0, crc))


def test_the_checksum_of_an_empty_file_proves_no_other() -> None:
    checksum = parse_checksum(HDFS, "0" * 24 + hashlib.md5(bytes(32), usedforsecurity=False).hexdigest())
    assert checksum is not None
    digest = checksum.new_digest()
    assert digest.proves(checksum.recorded)
    digest.update(b"x")
    assert not digest.proves(checksum.recorded)


@pytest.mark.parametrize("crc", [google_crc32c.value, zlib.crc32])
def test_a_composite_crc_is_that_of_all_bytes(crc: Callable[[bytes], int]) -> None:
    digest = CompositeCrc()
    for piece in (b"ab", memoryview(bytearray(b"c")), b""):
        digest.update(piece)
    assert digest.proves(f"{crc(b'abc'):08x}")
    assert not digest.proves(f"{crc(b'abd'):08x}")


@pytest.mark.parametrize("recorded", [RECORDED, "0badcafe"])
@given(content=st.binary(max_size=2000))
def test_the_default_digest_is_that_of_both_types_for_crc32c_and_proves_nothing_else(
    recorded: str, content: bytes
) -> None:
    checksum = parse_checksum(HDFS, recorded)
    assert checksum is not None
    both, default = checksum.new_digest(), checksum.new_default_digest()
    both.update(content)
    default.update(content)
    assert default.hexdigest() == both.hexdigest()
    assert default.proves(both.hexdigest())
    crc32 = (
        f"{zlib.crc32(content):08x}" if recorded != RECORDED else naive_checksum(content, 512, 0, zlib.crc32)
    )
    assert both.proves(crc32)
    assert default.proves(crc32) == (crc32 == both.hexdigest())  # equal for few contents


def test_only_checksums_of_known_kinds_can_be_verified() -> None:
    assert parse_checksum(FILE, "A" * 32) is not None
    assert parse_checksum(HDFS, RECORDED) is not None
    assert parse_checksum(HDFS, "0badcafe") is not None
    for location, recorded in (
        (FILE, None),
        (FILE, RECORDED),
        (HDFS, None),
        (HDFS, "A" * 32),
        (HDFS, "ffffffff" + RECORDED[8:]),
        (STORE, RECORDED),
    ):
        assert parse_checksum(location, recorded) is None
