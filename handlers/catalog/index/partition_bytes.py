"""The bytes of partitions as the metastore sends them: the offsets of their fields, and structs made from
them without decoding.

``get_partitions_spec_by_expr`` groups partitions by their storage descriptor and sends it once for each
group. Usually all partitions of a table share it and lie below the table's directory: then there is one
group, which ``join_spec`` joins from bytes. The metastore defines no order of several groups, so there is no
attempt then.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class
from typing import Final, NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from handlers.structs.objects import StorageDescriptor
from state.partitions.index.check_budget import AnswerBudget


_VALUES: Final = b"\x0f\x00\x01\x0b"
"""The start of field 1: a list of texts."""
_CREATE_TIME: Final = b"\x08\x00\x04"
_ACCESS_TIME: Final = b"\x08\x00\x05"
_DESCRIPTOR: Final = b"\x0c\x00\x06"
_WRITE_ID: Final = b"\x0a\x00\x0a"
STOP: Final = b"\x00"
_read_size: Final = Struct(">I").unpack_from
_TIMES_BYTES: Final = 14
"""Fields 4 and 5, between the values and the storage descriptor."""
DESCRIPTOR_AT: Final = _TIMES_BYTES + len(_DESCRIPTOR)
"""Bytes from the end of the values to the first field of the storage descriptor."""
_CATALOG: Final = "hive"
_LOCATION: Final = b"\x0b\x00\x02"
_PARAMETERS: Final = b"\x0d\x00\x07\x0b\x0b"
_BETWEEN_LOOKS: Final = 256


def text_field(number: int, text: str) -> bytes:
    """Return the bytes of a Thrift field with a text."""
    data = text.encode()
    return b"\x0b" + number.to_bytes(2) + len(data).to_bytes(4) + data


def without_write_id(partition: bytes) -> bytes | None:
    """Return the struct of a partition as servers before Hive 4 send it,
    None if the write id is not its last field.
    """
    start = len(partition) - len(_WRITE_ID) - 9
    return partition[:start] + STOP if partition.startswith(_WRITE_ID, start) else None


def _end_of_values(partition: bytes) -> int:
    """Return where the partition's values end if they are the first field; 0 otherwise."""
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
    """Return where the content of the storage descriptor begins;
    0 for a partition that no metastore sends, without fields 1 to 6.
    """
    at = _end_of_values(partition)
    is_complete = (
        at > 0
        and partition.startswith(_CREATE_TIME, at)
        and partition.startswith(_ACCESS_TIME, at + 7)
        and partition.startswith(_DESCRIPTOR, at + _TIMES_BYTES)
    )
    return at + DESCRIPTOR_AT if is_complete else 0


class _Shared(NamedTuple):
    """The shared part of all partitions' storage descriptors: the data columns, and everything after the
    location.
    """

    columns: bytes
    rest: bytes


def join_spec(
    inflated: Iterable[tuple[bytes, bytes]], db: str, table: str, location: str, budget: AnswerBudget
) -> bytes | None:
    """Return the struct PartitionSpec of at least one partition; None if they are not one group.

    ``inflated`` are the partitions as ``PayloadReader.inflate`` returns them. Raises LimitExceeded when
    ``budget`` is empty, and the errors of ``inflated``.
    """
    root = location.encode()
    shared: _Shared | None = None
    pieces = []
    for number, (partition, columns) in enumerate(inflated):
        if not number % _BETWEEN_LOOKS:
            budget.look()
        at = find_descriptor(partition)
        if not columns or not at or not partition.startswith(_LOCATION, at):
            return None
        end = at + 7 + int.from_bytes(partition[at + 3 : at + 7])
        path = partition[at + 7 : end]
        shared = shared or _Shared(columns, partition[end : _end_of_descriptor(partition, at)])
        if (
            columns != shared.columns
            or not partition.startswith(shared.rest, end)
            or not path.startswith(root)
        ):
            return None
        piece = _without_descriptor(partition, at, path[len(root) :], end + len(shared.rest))
        if piece is None:
            return None
        budget.count_bytes(len(piece))
        pieces.append(piece)
    assert shared is not None, "at least one partition"
    descriptor = b"\x0c\x00\x02" + shared.columns + text_field(2, location) + shared.rest
    listed = b"\x0f\x00\x01\x0c" + len(pieces).to_bytes(4) + b"".join(pieces)
    start = text_field(1, db) + text_field(2, table) + text_field(3, location)
    return start + b"\x0c\x00\x04" + listed + descriptor + STOP + text_field(6, _CATALOG) + STOP


def _end_of_descriptor(partition: bytes, at: int) -> int:
    """Return the end of a storage descriptor that begins at ``at``, behind its last byte."""
    transport = TMemoryBuffer(partition[at:])
    StorageDescriptor().read(TBinaryProtocolAccelerated(transport))
    return at + int(transport.cstringio_buf.tell())


def _without_descriptor(partition: bytes, at: int, path: bytes, end: int) -> bytes | None:
    """Return the struct PartitionWithoutSD; None for a partition without parameters. ``end`` is the end of
    its storage descriptor.
    """
    if not partition.startswith(_PARAMETERS, end):
        return None
    after = end + len(_PARAMETERS) + 4
    for _ in range(2 * int.from_bytes(partition[after - 4 : after])):
        after += 4 + int.from_bytes(partition[after : after + 4])
    times = at - DESCRIPTOR_AT
    return b"".join(
        (
            partition[:times],
            b"\x08\x00\x02" + partition[times + 3 : times + 7],
            b"\x08\x00\x03" + partition[times + 10 : times + 14],
            b"\x0b\x00\x04" + len(path).to_bytes(4) + path,
            b"\x0d\x00\x05" + partition[end + 3 : after],
            STOP,
        )
    )
