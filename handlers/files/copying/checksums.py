"""Meaning of the checksum of a file entry for the file's bytes, and its computation from them.

The change manager records the hex form of Hadoop's ``FileSystem.getFileChecksum().getBytes()``
(ReplChangeManager), so the meaning depends on the file system of the source:

========================  ====================================================================================
recorded                  meaning
========================  ====================================================================================
32 hex digits, ``file:``  MD5 of the bytes
56 hex digits, HDFS       4 bytes: bytes per CRC; 8 bytes: CRCs per block (0 for a single block);
                          16 bytes: MD5 over the MD5s of the blocks' CRCs (``MD5MD5CRC32FileChecksum``,
                          HDFS's default)
8 hex digits, HDFS        CRC of all bytes (``dfs.checksum.combine.mode=COMPOSITE_CRC``)
anything else             unknown: it cannot be verified
none                      the file system has no checksums
========================  ====================================================================================

HDFS computes its checksums from CRCs that it has already stored. They depend on nothing but the bytes, the
block size and the type of CRC, so verifying the copy works wherever it is, without HDFS. The record does not
name the type: CRC32C is the default, old clusters have CRC32, and either proves the content. Both cost three
times as much as CRC32C alone, which a caller can try first. The record does not contain the layout of blocks
either. A block of an erasure-coded file contains every n-th mebibyte of it; this module also computes the
checksums for Hadoop's own policies.
"""

from __future__ import annotations

import hashlib
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Final, Protocol

from handlers.files.paths import Location


_MD5_HEX: Final = re.compile(r"[0-9a-fA-F]{32}")
_BLOCKS_HEX: Final = re.compile(r"[0-9a-fA-F]{56}")
_CRC_HEX: Final = re.compile(r"[0-9a-fA-F]{8}")
HDFS_SCHEMES: Final = frozenset({"hdfs", "viewfs", "webhdfs", "swebhdfs", "ofs", "o3fs"})
BYTES_PER_CRC_MAX: Final = 1 << 20
UNITS: Final = (2, 3, 6, 10)
"""Data blocks of a group in Hadoop's erasure coding policies (XOR-2-1, RS-3-2, RS-6-3, RS-10-4)."""
CHUNKS_SPLIT: Final = 256
"""Chunks cut from a buffer by one call."""
CELL_BYTES: Final = 1 << 20
"""Bytes of a cell in all of these policies."""
_JAVA_BUFFER_BYTES: Final = 32
"""HDFS digests the whole buffer that it collects the blocks' MD5s in: this size, doubled until they fit,
padded with zeros."""


class Digest(Protocol):
    """A running checksum of bytes."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add ``data``."""

    def hexdigest(self) -> str:
        """Return the checksum of the bytes so far as Hadoop records it, with its default type of CRC."""

    def proves(self, recorded: str) -> bool:
        """Return whether the bytes so far have the recorded checksum (lower-case hex)."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """A recorded checksum that can be verified."""

    recorded: str
    """Lower-case hex."""
    new_digest: Callable[[], Digest]
    """Its digest proves every content that has the recorded checksum."""
    new_default_digest: Callable[[], Digest]
    """Its digest may fail to prove files written with another type of CRC than HDFS's default, and costs a
    third.
    """


class Md5:
    """MD5 of all bytes."""

    def __init__(self) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)

    def update(self, data: bytes | memoryview, /) -> None:
        """Add ``data``."""
        self._md5.update(data)

    def hexdigest(self) -> str:
        """Return the MD5 of all bytes so far."""
        return self._md5.hexdigest()

    def proves(self, recorded: str) -> bool:
        """Return whether the MD5 is the recorded one."""
        return self.hexdigest() == recorded


Crc = Callable[[int, bytes | memoryview], int]
"""Continues a CRC over further bytes."""


def _crc32(crc: int, data: bytes | memoryview) -> int:
    return zlib.crc32(data, crc)


def _crc32c(crc: int, data: bytes | memoryview) -> int:
    import google_crc32c

    return int(
        google_crc32c.extend(crc, data if isinstance(data, bytes) else bytes(data))
    )  # it accepts no memoryview


_CRCS: Final[tuple[Crc, ...]] = (_crc32c, _crc32)
"""Of both types, HDFS's default first."""
ChunkCrc = Callable[[bytes], int]
"""Computes the CRC of one chunk; half the cost of ``Crc``, which counts with two calls for every 512
bytes."""


def _list_chunk_crcs() -> tuple[ChunkCrc, ...]:
    import google_crc32c

    return google_crc32c.value, zlib.crc32


class CompositeCrc:
    """One CRC over all bytes, in both types or only in HDFS's default."""

    def __init__(self, *, default_only: bool = False) -> None:
        self._crcs = _CRCS[:1] if default_only else _CRCS
        self._values = [0 for _ in self._crcs]

    def update(self, data: bytes | memoryview, /) -> None:
        """Add ``data``."""
        self._values = [crc(value, data) for crc, value in zip(self._crcs, self._values, strict=True)]

    def hexdigest(self) -> str:
        """Return the CRC32C of all bytes so far."""
        return f"{self._values[0]:08x}"

    def proves(self, recorded: str) -> bool:
        """Return whether one of the CRCs is the recorded one."""
        return recorded in {f"{value:08x}" for value in self._values}


class BlockChecksums:
    """HDFS's MD5 of MD5s of CRCs for replicated and erasure-coded files,
    for both types of CRC or only for HDFS's default.
    """

    def __init__(
        self,
        bytes_per_crc: int,
        crcs_per_block: int,
        cell_bytes: int = CELL_BYTES,
        *,
        default_only: bool = False,
    ) -> None:
        self._header = struct.pack(">iq", bytes_per_crc, crcs_per_block)
        self._bytes_per_crc = bytes_per_crc or 1  # HDFS records 0 for an empty file
        units = (1, *UNITS) if cell_bytes % self._bytes_per_crc == 0 else (1,)
        crcs_per_cell = cell_bytes // self._bytes_per_crc
        self._files = [
            (crc, [_Blocks(each, crcs_per_cell, crcs_per_block) for each in units])
            for crc in _list_chunk_crcs()[: 1 if default_only else None]
        ]
        self._rest = b""
        """Bytes of a chunk that is not complete."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Add ``data``."""
        view = memoryview(data)
        if self._rest:
            missing = self._bytes_per_crc - len(self._rest)
            self._rest += bytes(view[:missing])
            view = view[missing:]
            if len(self._rest) < self._bytes_per_crc:
                return
            self._add(memoryview(self._rest))
        whole = len(view) - len(view) % self._bytes_per_crc
        self._add(view[:whole])
        self._rest = bytes(view[whole:])

    def _add(self, chunks: memoryview) -> None:
        pieces = self._split(chunks)
        for crc, layouts in self._files:
            crcs = _pack_crcs(crc, pieces)
            for layout in layouts:
                layout.add(crcs)

    def _split(self, chunks: memoryview) -> list[bytes]:
        """Return the chunks; the last one may be incomplete."""
        step, split = self._bytes_per_crc, _split_many(self._bytes_per_crc)
        pieces: list[bytes] = []
        end = len(chunks) - len(chunks) % split.size
        for start in range(0, end, split.size):
            pieces += split.unpack_from(chunks, start)
        return pieces + [bytes(chunks[start : start + step]) for start in range(end, len(chunks), step)]

    def _digests(self) -> Iterator[bytes]:
        """Yield the checksum of all bytes so far, for each type of CRC and each way to lay out blocks."""
        rest = self._split(memoryview(self._rest))
        for crc, layouts in self._files:
            last = _pack_crcs(crc, rest)
            yield from (layout.digest(last) for layout in layouts)

    def hexdigest(self) -> str:
        """Return the checksum of all bytes so far with CRC32C in replicated blocks."""
        return (self._header + next(self._digests())).hex()

    def proves(self, recorded: str) -> bool:
        """Return whether one of the checksums is the recorded one."""
        return any((self._header + digest).hex() == recorded for digest in self._digests())


@lru_cache(maxsize=8)
def _split_many(bytes_per_crc: int) -> struct.Struct:
    """Return a function that splits this number of chunks at once; a slice for each takes twice as long."""
    return struct.Struct(f"{bytes_per_crc}s" * CHUNKS_SPLIT)


def _pack_crcs(crc: ChunkCrc, chunks: list[bytes]) -> memoryview:
    """Return the CRCs of chunks as HDFS stores them."""
    return memoryview(struct.pack(f">{len(chunks)}I", *map(crc, chunks)))


class _Blocks:
    """The MD5s of a file's blocks, from its CRCs.

    An erasure-coded file consists of groups of ``units`` data blocks; they take its cells in turn. HDFS
    digests the MD5s of a group once more. A replicated file has one unit.
    """

    def __init__(self, units: int, crcs_per_cell: int, crcs_per_block: int) -> None:
        self._count = units
        self._cell_bytes = 4 * crcs_per_cell
        self._group_bytes = 4 * crcs_per_block * units
        """CRCs of a whole group in bytes; 0 if the file is one group."""
        self._position = 0
        self._units = [_new_md5() for _ in range(units)]
        self._groups = b""
        """Digests of the groups before."""

    def add(self, crcs: memoryview) -> None:
        """Add CRCs; pieces end at the end of a cell or a group."""
        while crcs:
            end = min(len(crcs), self._bytes_to_boundary())
            self._units[self._cell() % self._count].update(crcs[:end])
            self._position += end
            crcs = crcs[end:]
            if self._position == self._group_bytes:
                self._groups += self._digest_group(self._units)
                self._position = 0
                self._units = [_new_md5() for _ in range(self._count)]

    def _cell(self) -> int:
        return self._position // self._cell_bytes

    def _bytes_to_boundary(self) -> int:
        cell = self._cell_bytes - self._position % self._cell_bytes
        return min(cell, self._group_bytes - self._position) if self._group_bytes else cell

    def _digest_group(self, units: Sequence[hashlib._Hash]) -> bytes:
        """Return the digest of a group; in a replicated file, this is the digest of its only block."""
        digests = b"".join(unit.digest() for unit in units)
        return digests if self._count == 1 else _md5(_pad(digests))

    def digest(self, last: memoryview) -> bytes:
        """Return the MD5 of a file that ends with ``last``, at most one CRC."""
        used = -(-(self._position + len(last)) // self._cell_bytes)
        units = [unit.copy() for unit in self._units[:used]]
        if last:
            units[self._cell() % self._count].update(last)
        return _md5(_pad(self._groups + (self._digest_group(units) if units else b"")))


def _pad(digests: bytes) -> bytes:
    """Return digests with the zeros that follow them in HDFS's buffer."""
    size = _JAVA_BUFFER_BYTES
    while size < len(digests):
        size *= 2
    return digests.ljust(size, b"\0")


def _new_md5() -> hashlib._Hash:
    return hashlib.md5(usedforsecurity=False)


def _md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def parse_checksum(location: Location, recorded: str | None) -> Checksum | None:
    """Return the checksum that the bytes of ``location`` must have; None without a verifiable one."""
    if recorded is None:
        return None
    text = recorded.lower()
    if location.scheme == "file":
        return Checksum(text, Md5, Md5) if _MD5_HEX.fullmatch(text) else None
    if location.scheme not in HDFS_SCHEMES:
        return None
    if _CRC_HEX.fullmatch(text):
        return Checksum(text, CompositeCrc, partial(CompositeCrc, default_only=True))
    if _BLOCKS_HEX.fullmatch(text):
        return _parse_block_checksums(text)
    return None


def _parse_block_checksums(text: str) -> Checksum | None:
    bytes_per_crc, crcs_per_block = struct.unpack(">iq", bytes.fromhex(text)[:12])
    if not 0 <= bytes_per_crc <= BYTES_PER_CRC_MAX or crcs_per_block < 0:
        return None
    new_digest = partial(BlockChecksums, bytes_per_crc, crcs_per_block)
    return Checksum(text, new_digest, partial(new_digest, default_only=True))


def new_digest_like(location: Location, sample: str) -> Digest | None:
    """Return a digest of the kind of ``sample``,
    the recorded checksum of another file, for a file of one block; None if unknown.
    """
    checksum = parse_checksum(location, sample)
    if checksum is None:
        return None
    if _BLOCKS_HEX.fullmatch(checksum.recorded):
        bytes_per_crc, _ = struct.unpack(">iq", bytes.fromhex(checksum.recorded)[:12])
        return BlockChecksums(bytes_per_crc, 0)
    return checksum.new_digest()
