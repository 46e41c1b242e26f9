"""Payloads as the bytes in which the metastore sends partitions, without an object for each partition.

A payload is inflated, and the three fields that it leaves out are inserted as bytes: the names of database and table, and the data
columns. Each takes a few microseconds; decoding a partition and encoding it again takes fifty times as long. Fields stay in the order
of their numbers, as the metastore writes them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import TYPE_CHECKING, Final

from handlers.catalog.index.payloads import (
    DICTIONARY_BYTES_MAX,
    ID_BYTES,
    RAW_DEFLATE,
    read_dictionary,
    unreadable,
)
from handlers.structs import binary
from handlers.structs.objects import Partition, StorageDescriptor
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.index.joined_rows import JoinedRows
    from state.partitions.index.check_budget import AnswerBudget
    from state.store import Reader


_VALUES: Final = b"\x0f\x00\x01\x0b"
"""The start of field 1: a list of texts."""
_CREATE_TIME: Final = b"\x08\x00\x04"
_ACCESS_TIME: Final = b"\x08\x00\x05"
_DESCRIPTOR: Final = b"\x0c\x00\x06"
_WRITE_ID: Final = b"\x0a\x00\x0a"
_STOP: Final = b"\x00"
_read_size: Final = Struct(">I").unpack_from
_TIMES_BYTES: Final = 14
"""Fields 4 and 5, between the values and the storage descriptor."""
DESCRIPTOR_AT: Final = _TIMES_BYTES + len(_DESCRIPTOR)
"""Bytes from the end of the values to the first field of the storage descriptor."""
_JOINED_BETWEEN_LOOKS: Final = 256
KEPT_ROWS_MAX: Final = 5_000
"""Partitions of an answer that are kept in memory; those of a longer one would displace all others."""


@dataclass(frozen=True, slots=True)
class _WireDictionary:
    content: bytes
    """The dictionary for deflate."""
    columns: bytes
    """The field of the data columns, in a storage descriptor."""
    is_bucketed: bool


class PayloadBytes:
    """Joins the bytes of partitions from their payloads, as of one reader."""

    def __init__(
        self,
        reader: Reader,
        dictionaries: dict[bytes, _WireDictionary] | None = None,
        rows: JoinedRows | None = None,
    ) -> None:
        """``rows`` keeps partitions in memory; without it, each is joined every time."""
        self._reader = reader
        self._dictionaries: dict[bytes, _WireDictionary] = {} if dictionaries is None else dictionaries
        self._rows = rows

    def at(self, reader: Reader) -> PayloadBytes:
        """Return the same for another reader; known dictionaries are shared, as they never change."""
        return PayloadBytes(reader, self._dictionaries, self._rows)

    def is_bucketed(self, dictionary: bytes) -> bool:
        """Whether the table of a dictionary is bucketed."""
        return self._dictionary(dictionary).is_bucketed

    def join(self, payloads: Sequence[bytes], db: str, table: str, budget: AnswerBudget) -> list[bytes]:
        """Return pieces that together are the structs of the partitions, one after the other.

        Raises StateCorrupt, and LimitExceeded where ``budget`` is used up.
        """
        names = text_field(2, db) + text_field(3, table)
        rows = self._rows if len(payloads) <= KEPT_ROWS_MAX else None
        pieces: list[bytes] = []
        for start in range(0, len(payloads), _JOINED_BETWEEN_LOOKS):
            budget.look()
            some = payloads[start : start + _JOINED_BETWEEN_LOOKS]
            if rows is None:
                joined = [self._join_one(payload, names) for payload in some]
            else:
                joined = rows.get_all(names, some, lambda payload: self._join_one(payload, names))
            budget.count_bytes(sum(map(len, joined)))
            pieces += joined
        return pieces

    def inflate(self, payload: bytes) -> tuple[bytes, bytes]:
        """Return the Thrift form in a payload, and the field of the data columns that it leaves out, if any; raise StateCorrupt."""
        dictionary = self._dictionary(payload[:ID_BYTES])
        try:
            inflated = zlib.decompressobj(wbits=RAW_DEFLATE, zdict=dictionary.content).decompress(
                payload[ID_BYTES + 1 :]
            )
        except zlib.error as error:
            raise unreadable(payload) from error
        return inflated, dictionary.columns if payload[ID_BYTES] else b""

    def _join_one(self, payload: bytes, names: bytes) -> bytes:
        """Return the struct of one partition."""
        inflated, columns = self.inflate(payload)
        descriptor = find_descriptor(inflated)
        if not descriptor:
            return _insert_decoded(payload, inflated, names, columns)
        values = descriptor - DESCRIPTOR_AT
        return b"".join(
            (inflated[:values], names, inflated[values:descriptor], columns, inflated[descriptor:])
        )

    def _dictionary(self, number: bytes) -> _WireDictionary:
        found = self._dictionaries.get(number)
        if found is None:
            stored = read_dictionary(self._reader, number)
            typical = binary.decode(Partition, stored)
            columns = binary.encode(StorageDescriptor(cols=typical.sd.cols or []))[:-1]
            buckets = typical.sd.numBuckets or 0
            found = _WireDictionary(stored[-DICTIONARY_BYTES_MAX:], columns, is_bucketed=buckets > 0)
            self._dictionaries[number] = found
        return found


def text_field(number: int, text: str) -> bytes:
    """Return a field with a text."""
    data = text.encode()
    return b"\x0b" + number.to_bytes(2) + len(data).to_bytes(4) + data


def without_write_id(partition: bytes) -> bytes | None:
    """Return the struct of a partition as servers before Hive 4 send it, None where the write id is not its last field."""
    start = len(partition) - len(_WRITE_ID) - 9
    return partition[:start] + _STOP if partition.startswith(_WRITE_ID, start) else None


def _end_of_values(partition: bytes) -> int:
    """Return where the values end if they are the first field; 0 otherwise."""
    if not partition.startswith(_VALUES):
        return 0
    at = len(_VALUES) + 4
    try:
        for _ in range(_read_size(partition, len(_VALUES))[0]):
            at += 4 + _read_size(partition, at)[0]
    except StructError:
        return 0
    return at


def find_descriptor(partition: bytes) -> int:
    """Return where the content of the storage descriptor begins; 0 for a partition that no metastore sends, without fields 1 to 6."""
    at = _end_of_values(partition)
    is_complete = (
        at > 0
        and partition.startswith(_CREATE_TIME, at)
        and partition.startswith(_ACCESS_TIME, at + 7)
        and partition.startswith(_DESCRIPTOR, at + _TIMES_BYTES)
    )
    return at + DESCRIPTOR_AT if is_complete else 0


def _insert_decoded(payload: bytes, inflated: bytes, names: bytes, columns: bytes) -> bytes:
    """Return the bytes of a partition without times or values, by decoding it."""
    try:
        partition = binary.decode(Partition, inflated)
        if columns:
            partition.sd.cols = binary.decode(StorageDescriptor, columns + _STOP).cols
        return names + binary.encode(partition)
    except MalformedEvent as error:
        raise unreadable(payload) from error
