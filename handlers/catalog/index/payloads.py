"""Payloads: a whole partition, as the metastore would send it, in few bytes.

A partition on the wire takes one to three kilobytes; all but about sixty bytes are the same for all partitions of its table: columns,
formats, the start of the location. So the Thrift form is deflated with a *dictionary*, the Thrift form of a typical partition of the
table. A partition that differs (other columns, another format) is stored completely, too, and only takes more space. The names of
database and table are left out, so a rename does not change payloads. Data columns equal to the table's are left out too, because
reading them takes most of the time of an answer.

A dictionary is identified by the hash of its content, which every payload contains. So a payload can be read as long as its
dictionary exists, even if the table has changed since. Dictionaries are never removed: one or two kilobytes for each set of columns
that a table ever had.

``normalize`` returns the form in which a partition is stored. It differs from the partition of an event (found by comparing events with
answers): ``writeId`` is -1 unless an alter has set it, even if ADD_PARTITION contains another one (Hive 4.2). And an event contains a storage descriptor
as the client sent it. Trino leaves out what is empty; a metastore of any version sends it from its database.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

from handlers.structs import binary
from handlers.structs.objects import Partition, SerDeInfo, SkewedInfo, StorageDescriptor
from state.errors import MalformedEvent, StateCorrupt
from state.partitions.index.records import DICTIONARIES


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.structs.objects import FieldSchema, Table
    from state.store import Reader, Transaction


DICTIONARY_BYTES_MAX: Final = 32_000
"""The window of deflate."""
NO_WRITE_ID: Final = -1
ID_BYTES: Final = 8
RAW_DEFLATE: Final = -zlib.MAX_WBITS
_TYPICAL: Final = {
    "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true","COLUMN_STATS":{',
    "numFiles": "1",
    "numFilesErasureCoded": "0",
    "numRows": "0",
    "rawDataSize": "0",
    "totalSize": "0",
    "transient_lastDdlTime": "17",
}
"""Parameters that Hive adds to a partition."""
_LEFT_OUT: Final[Mapping[str, Callable[[], object]]] = {
    "compressed": bool,
    "numBuckets": int,
    "bucketCols": list,
    "sortCols": list,
    "parameters": dict,
    "skewedInfo": lambda: SkewedInfo(skewedColNames=[], skewedColValues=[], skewedColValueLocationMaps={}),
    "storedAsSubDirectories": bool,
}
"""What a metastore sends of a storage descriptor that was stored without these fields."""


def normalize(partition: Partition, *, is_new: bool = False) -> Partition:
    """Return a partition as the metastore would send it: with a write id, and without fields sent only on request."""
    kept = Partition(**partition.set_fields())
    kept.colStats = kept.privileges = None
    descriptor: StorageDescriptor | None = kept.sd
    if descriptor is not None:
        kept.sd = _complete(descriptor)
    if is_new or kept.writeId is None:
        kept.writeId = NO_WRITE_ID
    return kept


def _complete(descriptor: StorageDescriptor) -> StorageDescriptor:
    """Return a storage descriptor with the fields that its client has left out."""
    left_out: dict[str, Any] = {
        name: make() for name, make in _LEFT_OUT.items() if getattr(descriptor, name) is None
    }
    serde = descriptor.serdeInfo
    if serde is not None and serde.parameters is None:
        left_out["serdeInfo"] = SerDeInfo(**{**serde.set_fields(), "parameters": {}})
    return StorageDescriptor(**{**descriptor.set_fields(), **left_out}) if left_out else descriptor


def make_dictionary(table: Table) -> bytes:
    """Return the dictionary of a table: a typical partition."""
    typical = Partition(
        values=[],
        dbName="",
        tableName="",
        createTime=0,
        lastAccessTime=0,
        sd=_complete(_descriptor(table)),
        parameters=_TYPICAL,
        writeId=NO_WRITE_ID,
    )
    typical.catName = table.catName
    return binary.encode(typical)


def store_dictionary(txn: Transaction, content: bytes) -> bytes:
    """Store a dictionary and return its id."""
    number = blake2b(content, digest_size=ID_BYTES).digest()
    txn.put(DICTIONARIES + number, content)
    return number


def digest_data_columns(table: Table) -> str:
    """Return a digest of a table's data columns; if it changes, partitions may have changed too (CASCADE)."""
    columns = StorageDescriptor(cols=_descriptor(table).cols or [])
    return blake2b(binary.encode(columns), digest_size=ID_BYTES).hexdigest()


def _descriptor(table: Table) -> StorageDescriptor:
    """Return the storage descriptor of a table, an empty one where another writer has left it out."""
    found: StorageDescriptor | None = table.sd
    return found or StorageDescriptor()


@dataclass(frozen=True, slots=True)
class _Dictionary:
    content: bytes
    """The dictionary for deflate."""
    columns: list[FieldSchema]
    """The data columns of the typical partition."""


class Packer:
    """Packs partitions into payloads and unpacks them.

    ::

        payload = id of the dictionary (8 bytes), 01 where the data columns are the dictionary's and left out (else 00), deflated Thrift
    """

    def __init__(self, reader: Reader, dictionaries: dict[bytes, _Dictionary] | None = None) -> None:
        self._reader = reader
        self._dictionaries: dict[bytes, _Dictionary] = {} if dictionaries is None else dictionaries

    def at(self, reader: Reader) -> Packer:
        """Return a packer that reads unknown dictionaries from ``reader``; known ones are shared, as they never change."""
        return Packer(reader, self._dictionaries)

    def pack(self, partition: Partition, number: bytes) -> bytes:
        """Return the payload of a normalized partition; raise MalformedEvent where it cannot be serialized."""
        dictionary = self._dictionary(number)
        kept = Partition(**partition.set_fields())
        kept.dbName = kept.tableName = None  # type: ignore[assignment]  # added again by unpack
        descriptor: StorageDescriptor | None = kept.sd
        is_usual = descriptor is not None and bool(descriptor.cols) and descriptor.cols == dictionary.columns
        if is_usual:
            kept.sd = StorageDescriptor(**kept.sd.set_fields())
            kept.sd.cols = None
        deflate = zlib.compressobj(wbits=RAW_DEFLATE, zdict=dictionary.content)
        return number + bytes([is_usual]) + deflate.compress(binary.encode(kept)) + deflate.flush()

    def unpack(self, payload: bytes, db: str, table: str) -> Partition:
        """Return the partition of a payload; raise StateCorrupt where it cannot be read.

        The objects of its data columns are shared between partitions and must not be changed.
        """
        return self.read(payload, self.inflate(payload), db, table)

    def inflate(self, payload: bytes) -> bytes:
        """Return the Thrift form in a payload; raise StateCorrupt where it cannot be read."""
        dictionary = self._dictionary(payload[:ID_BYTES])
        try:
            deflated = zlib.decompressobj(wbits=RAW_DEFLATE, zdict=dictionary.content)
            return deflated.decompress(payload[ID_BYTES + 1 :])
        except zlib.error as error:
            raise unreadable(payload) from error

    def read(self, payload: bytes, inflated: bytes, db: str, table: str) -> Partition:
        """Return the partition of a payload whose Thrift form is ``inflated``; raise StateCorrupt."""
        try:
            partition = binary.decode(Partition, inflated)
        except MalformedEvent as error:
            raise unreadable(payload) from error
        if payload[ID_BYTES]:
            partition.sd.cols = list(self._dictionary(payload[:ID_BYTES]).columns)
        partition.dbName, partition.tableName = db, table
        return partition

    def _dictionary(self, number: bytes) -> _Dictionary:
        found = self._dictionaries.get(number)
        if found is None:
            stored = read_dictionary(self._reader, number)
            typical = binary.decode(Partition, stored)
            found = _Dictionary(stored[-DICTIONARY_BYTES_MAX:], typical.sd.cols or [])
            self._dictionaries[number] = found
        return found


def read_dictionary(reader: Reader, number: bytes) -> bytes:
    """Return a stored dictionary; raise StateCorrupt where it does not exist."""
    stored = reader.get(DICTIONARIES + number)
    if stored is None:
        raise StateCorrupt("the dictionary of a partition of the index is missing", dictionary=number.hex())
    return stored


def unreadable(payload: bytes) -> StateCorrupt:
    """Return the error for a payload that cannot be read."""
    return StateCorrupt("a partition of the index cannot be read", payload=payload.hex()[:80])


def merge_statistics(partition: Partition, parameters: Mapping[str, str], write_id: int | None) -> Partition:
    """Return a normalized partition with the parameters and write id of a statistics update."""
    kept = Partition(**partition.set_fields())
    kept.parameters = {**(partition.parameters or {}), **parameters}
    if write_id is not None and write_id > 0:
        kept.writeId = write_id
    return kept
