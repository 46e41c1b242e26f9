"""What the metastore would send for a partition, in few bytes.

A partition on the wire takes one to three kilobytes, of which all but some sixty bytes are those of its table: columns, formats,
the start of its location. So the Thrift form is deflated with a *dictionary*, the Thrift form of a typical partition of the
table. Whatever a partition has of its own (other columns, another format) is kept all the same; it only takes more room. The
names of database and table are left out: a rename does not touch payloads. So are the data columns where they are those of the table,
since reading them takes most of the time of an answer.

Dictionaries are found by the hash of their content, which is in every payload, so a payload is readable for as long as its
dictionary is kept, whatever became of the table since. They are never removed: a kilobyte or two for each set of columns that a
table ever had.

``normalize`` says what is kept of a partition that an event tells of, which differs from what the metastore will answer in one
field (Hive 4.2, found by comparing the two): ``writeId`` is -1 unless an alter has set it, whatever ADD_PARTITION says.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from handlers.structs import binary
from handlers.structs.objects import Partition, StorageDescriptor
from state.errors import MalformedEvent, StateCorrupt


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.objects import FieldSchema, Table
    from state.store import Reader, Transaction


DICTIONARY_BYTES_MAX: Final = 32_000
"""What deflate can look back to."""
NO_WRITE_ID: Final = -1
_ID_BYTES: Final = 8
_DICTIONARIES: Final = b"pd/"
_RAW: Final = -zlib.MAX_WBITS
_TYPICAL: Final = {
    "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{',
    "numFiles": "1",
    "numFilesErasureCoded": "0",
    "numRows": "0",
    "rawDataSize": "0",
    "totalSize": "0",
    "transient_lastDdlTime": "17",
}
"""Parameters that Hive gives to a partition."""


def normalize(partition: Partition, *, is_new: bool = False) -> Partition:
    """Return a partition as the metastore answers it: without what it sends on request only, and with a write id."""
    kept = Partition(**partition.set_fields())
    kept.colStats = kept.privileges = None
    if is_new or kept.writeId is None:
        kept.writeId = NO_WRITE_ID
    return kept


def make_dictionary(table: Table) -> bytes:
    """Return what the partitions of a table have in common."""
    typical = Partition(
        values=[],
        dbName="",
        tableName="",
        createTime=0,
        lastAccessTime=0,
        sd=_descriptor(table),
        parameters=_TYPICAL,
        writeId=NO_WRITE_ID,
    )
    typical.catName = table.catName
    return binary.encode(typical)


def store_dictionary(txn: Transaction, content: bytes) -> bytes:
    """Store a dictionary and return its id."""
    number = blake2b(content, digest_size=_ID_BYTES).digest()
    txn.put(_DICTIONARIES + number, content)
    return number


def columns_hash(table: Table) -> str:
    """Return a digest of a table's data columns: where it changes, its partitions may have changed with it (CASCADE)."""
    columns = StorageDescriptor(cols=_descriptor(table).cols or [])
    return blake2b(binary.encode(columns), digest_size=_ID_BYTES).hexdigest()


def _descriptor(table: Table) -> StorageDescriptor:
    """Return the storage descriptor of a table, an empty one where a foreign writer has left it out."""
    found: StorageDescriptor | None = table.sd
    return found or StorageDescriptor()


@dataclass(frozen=True, slots=True)
class _Dictionary:
    content: bytes
    """What is given to deflate."""
    columns: list[FieldSchema]
    """The data columns of the typical partition."""


class Packer:
    """Makes payloads with one dictionary and reads those of any.

    ::

        payload = id of the dictionary 8, 01 where the data columns are those of the dictionary and left out (else 00), deflated Thrift
    """

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._dictionaries: dict[bytes, _Dictionary] = {}

    def pack(self, partition: Partition, number: bytes) -> bytes:
        """Return the payload of a settled partition; raise MalformedEvent where it cannot be sent."""
        dictionary = self._dictionary(number)
        kept = Partition(**partition.set_fields())
        kept.dbName = kept.tableName = None  # type: ignore[assignment]  # told by whoever asks
        descriptor: StorageDescriptor | None = kept.sd
        usual = descriptor is not None and bool(descriptor.cols) and descriptor.cols == dictionary.columns
        if usual:
            kept.sd = StorageDescriptor(**kept.sd.set_fields())
            kept.sd.cols = None
        deflate = zlib.compressobj(wbits=_RAW, zdict=dictionary.content)
        return number + bytes([usual]) + deflate.compress(binary.encode(kept)) + deflate.flush()

    def unpack(self, payload: bytes, db: str, table: str) -> Partition:
        """Return the partition of a payload; raise StateCorrupt where it cannot be read.

        The descriptions of its data columns are shared with others: not to be changed.
        """
        dictionary = self._dictionary(payload[:_ID_BYTES])
        try:
            deflated = zlib.decompressobj(wbits=_RAW, zdict=dictionary.content)
            partition = binary.decode(Partition, deflated.decompress(payload[_ID_BYTES + 1 :]))
        except (zlib.error, MalformedEvent) as error:
            raise StateCorrupt(
                "a partition of the index cannot be read", payload=payload.hex()[:80]
            ) from error
        if payload[_ID_BYTES]:
            partition.sd.cols = list(dictionary.columns)
        partition.dbName, partition.tableName = db, table
        return partition

    def _dictionary(self, number: bytes) -> _Dictionary:
        found = self._dictionaries.get(number)
        if found is None:
            stored = self._reader.get(_DICTIONARIES + number)
            if stored is None:
                raise StateCorrupt("a partition of the index has no dictionary", dictionary=number.hex())
            typical = binary.decode(Partition, stored)
            found = _Dictionary(stored[-DICTIONARY_BYTES_MAX:], typical.sd.cols or [])
            self._dictionaries[number] = found
        return found


def merge_statistics(partition: Partition, parameters: Mapping[str, str], write_id: int | None) -> Partition:
    """Return a settled partition with the parameters that its statistics' update brought, and the write id of that."""
    kept = Partition(**partition.set_fields())
    kept.parameters = {**(partition.parameters or {}), **parameters}
    if write_id is not None and write_id > 0:
        kept.writeId = write_id
    return kept
