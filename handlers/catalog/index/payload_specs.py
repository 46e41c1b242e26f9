"""Payloads as the partition specification in which Hive 4 receives partitions that share a storage descriptor.

``get_partitions_spec_by_expr`` groups partitions by their storage descriptor and sends it once for each group. Usually all partitions of
a table share it and lie below the table's directory: then there is one group, which is joined from bytes here. The metastore's order of
several groups is not defined, so no attempt is made then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TMemoryBuffer

from handlers.catalog.index.payload_bytes import DESCRIPTOR_AT, find_descriptor, text_field
from handlers.structs.objects import StorageDescriptor


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.index.payload_bytes import PayloadBytes
    from state.partitions.index.check_budget import AnswerBudget


_CATALOG: Final = "hive"
_LOCATION: Final = b"\x0b\x00\x02"
_PARAMETERS: Final = b"\x0d\x00\x07\x0b\x0b"
_STOP: Final = b"\x00"
_BETWEEN_LOOKS: Final = 256


class _Shared(NamedTuple):
    """What all partitions share of their storage descriptors: the data columns, and everything after the location."""

    columns: bytes
    rest: bytes


def join_spec(  # noqa: PLR0913, PLR0917 - the table and what it is read with
    source: PayloadBytes, payloads: Sequence[bytes], db: str, table: str, location: str, budget: AnswerBudget
) -> bytes | None:
    """Return the struct PartitionSpec of at least one partition; None where they are not one group.

    Raises StateCorrupt, and LimitExceeded where ``budget`` is used up.
    """
    root = location.encode()
    shared: _Shared | None = None
    pieces = []
    for number, payload in enumerate(payloads):
        if not number % _BETWEEN_LOOKS:
            budget.look()
        inflated, columns = source.inflate(payload)
        at = find_descriptor(inflated)
        if not columns or not at or not inflated.startswith(_LOCATION, at):
            return None
        end = at + 7 + int.from_bytes(inflated[at + 3 : at + 7])
        path = inflated[at + 7 : end]
        shared = shared or _Shared(columns, inflated[end : _end_of_descriptor(inflated, at)])
        if (
            columns != shared.columns
            or not inflated.startswith(shared.rest, end)
            or not path.startswith(root)
        ):
            return None
        piece = _without_descriptor(inflated, at, path[len(root) :], end + len(shared.rest))
        if piece is None:
            return None
        budget.count_bytes(len(piece))
        pieces.append(piece)
    assert shared is not None, "at least one partition"
    place = text_field(2, location)
    descriptor = b"\x0c\x00\x02" + shared.columns + place + shared.rest
    listed = b"\x0f\x00\x01\x0c" + len(pieces).to_bytes(4) + b"".join(pieces)
    start = text_field(1, db) + text_field(2, table) + text_field(3, location)
    return start + b"\x0c\x00\x04" + listed + descriptor + _STOP + text_field(6, _CATALOG) + _STOP


def _end_of_descriptor(partition: bytes, at: int) -> int:
    """Return the end of a storage descriptor that begins at ``at``, behind its last byte."""
    transport = TMemoryBuffer(partition[at:])
    StorageDescriptor().read(TBinaryProtocolAccelerated(transport))
    return at + int(transport.cstringio_buf.tell())


def _without_descriptor(partition: bytes, at: int, path: bytes, end: int) -> bytes | None:
    """Return the struct PartitionWithoutSD; None for a partition without parameters. ``end``: the end of its descriptor."""
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
            _STOP,
        )
    )
