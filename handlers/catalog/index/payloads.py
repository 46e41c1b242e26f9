"""Payloads: a whole partition, as the metastore would send it, in few bytes.

A partition on the wire takes one to three kilobytes; all but about sixty bytes are the same for all
partitions of its table: columns, formats, the start of the location. So compression of the Thrift form uses a
*dictionary*, the Thrift form of a typical partition of the table. A partition that differs (other columns,
another format) is complete, too, and only takes more space. Payloads lack the names of database and table, so
a rename does not change them. Payloads also lack the data columns if these equal the table's, because reading
them takes most of the time of an answer.

Every payload contains the hash of its dictionary's content. So it is readable as long as the dictionary
exists, even if the table has changed since. Dictionaries stay: one or two kilobytes for each set of columns
that a table ever had.

``normalize`` returns the stored form of a partition. It differs from the partition of an event (found by
comparing events with answers): ``writeId`` is -1 unless an alter has set it, even if ADD_PARTITION contains
another one (Hive 4.2). And an event contains a storage descriptor as the client sent it. Trino leaves out
empty fields; a metastore of any version sends them from its database.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

from handlers.structs import binary
from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, SkewedInfo, StorageDescriptor, Table
from state.errors import StateCorrupt
from state.partitions.index.records import DICTIONARIES
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
"""Fields that a metastore adds to a storage descriptor stored without them."""


def normalize(partition: Partition, *, is_new: bool = False) -> Partition:
    """Return a partition as the metastore would send it:
    with a write id, and without fields sent only on request.
    """
    normal = Partition(**partition.set_fields())
    normal.colStats = normal.privileges = None
    descriptor: StorageDescriptor | None = normal.sd
    if descriptor is not None:
        normal.sd = _complete(descriptor)
    if is_new or normal.writeId is None:
        normal.writeId = NO_WRITE_ID
    return normal


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
    """Return the storage descriptor of a table, an empty one if another writer has left it out."""
    found: StorageDescriptor | None = table.sd
    return found or StorageDescriptor()


@dataclass(frozen=True, slots=True)
class Dictionary:
    """A dictionary for packing and reading payloads."""

    content: bytes
    """The dictionary for deflate."""
    columns: list[FieldSchema]
    """The data columns of the typical partition."""
    columns_field: bytes
    """The same as a field of a storage descriptor."""
    is_bucketed: bool


def read_dictionary(reader: Reader, number: bytes) -> Dictionary:
    """Return a stored dictionary; raise StateCorrupt if it does not exist."""
    stored = reader.get(DICTIONARIES + number)
    if stored is None:
        raise StateCorrupt("the dictionary of a partition of the index is missing", dictionary=number.hex())
    descriptor = binary.decode(Partition, stored).sd
    columns = descriptor.cols or []
    return Dictionary(
        stored[-DICTIONARY_BYTES_MAX:],
        columns,
        binary.encode(StorageDescriptor(cols=columns))[:-1],
        is_bucketed=(descriptor.numBuckets or 0) > 0,
    )


def pack(partition: Partition, number: bytes, dictionary: Dictionary) -> bytes:
    """Return the payload of a normalized partition; raise MalformedEvent if serializing it fails.

    ::

        payload = id of the dictionary (8 bytes), 01 if the data columns are the dictionary's and left out
        (else 00), deflated Thrift
    """
    stored = Partition(**partition.set_fields())
    stored.dbName = stored.tableName = None  # type: ignore[assignment]  # the reader adds them again
    descriptor: StorageDescriptor | None = stored.sd
    is_usual = descriptor is not None and bool(descriptor.cols) and descriptor.cols == dictionary.columns
    if is_usual:
        stored.sd = StorageDescriptor(**stored.sd.set_fields())
        stored.sd.cols = None
    deflate = zlib.compressobj(wbits=RAW_DEFLATE, zdict=dictionary.content)
    return number + bytes([is_usual]) + deflate.compress(binary.encode(stored)) + deflate.flush()


def merge_statistics(partition: Partition, parameters: Mapping[str, str], write_id: int | None) -> Partition:
    """Return a normalized partition with the parameters and write id of a statistics update."""
    merged = Partition(**partition.set_fields())
    merged.parameters = {**(partition.parameters or {}), **parameters}
    if write_id is not None and write_id > 0:
        merged.writeId = write_id
    return merged
