"""The recorded listing of one large table: answers as bytes, which the client decodes like those of a
metastore.

A benchmark of a load must not measure how the listing is made. So the names are written to a file in advance,
and the bytes of each partition are copied from a partition that was encoded in advance. While the load runs,
only the decoding remains, as in the daemon.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated
from thrift.transport.TTransport import TBufferedTransport, TFileObjectTransport

from dev.fixtures.hive_tables import a_partition
from dev.fixtures.memory_source import MemorySource
from handlers.structs import binary
from handlers.structs.objects import Partition
from handlers.structs.struct import Struct, resolve
from state.timelines.periods import UpdatePeriod


LARGE: Final = "large"
"""The table; its partitions have two columns, a minute and one of two values."""
_FIRST: Final = UpdatePeriod.MINUTELY.parse("2015-01-01-00-00")
_MINUTE: Final = "YYYY-mm-dd-HH-MM"
_OTHER: Final = "?"
_READ_BYTES: Final = 64 * 1024


class _Names(Struct):
    names: Annotated[list[str] | None, 1] = None


class _Partitions(Struct):
    partitions: Annotated[list[Partition] | None, 1] = None


resolve()


class RecordedSource(MemorySource):
    """A source in memory, with the recorded partitions of one table."""

    def __init__(self, partitions: int, directory: Path) -> None:
        super().__init__()
        self._file = directory / "names"
        names = [f"dt={format_minute(number // 2)}/x={number % 2}" for number in range(partitions)]
        self._file.write_bytes(binary.encode(_Names(names=names)))
        self._pattern = b""

    def partition_names(self, db: str, name: str) -> list[str]:
        """Decode the recorded names."""
        if name != LARGE:
            return super().partition_names(db, name)
        found = _Names()
        with self._file.open("rb") as file:
            transport = TBufferedTransport(TFileObjectTransport(file), rbuf_size=_READ_BYTES)
            found.read(TBinaryProtocolAccelerated(transport))
        return found.names or []

    def get_partitions(self, db: str, name: str, names: Sequence[str]) -> list[Partition]:
        """Decode the recorded partitions."""
        if name != LARGE:
            return super().get_partitions(db, name, names)
        pattern = self._pattern = self._pattern or self._record_partition()
        each = (
            pattern.replace(_MINUTE.encode(), one[3:19].encode()).replace(_OTHER.encode(), one[22:].encode())
            for one in names
        )
        start = struct.pack("!bhbi", 15, 1, 12, len(names))  # field 1, a list of structs
        return binary.decode(_Partitions, start + b"".join(each) + b"\x00").partitions or []

    def _record_partition(self) -> bytes:
        parameters = {"numRows": "7", "totalSize": "4711"}
        return binary.encode(a_partition(self.tables[LARGE], _MINUTE, _OTHER, parameters=parameters))


def format_minute(number: int) -> str:
    """Return the value of the ``number``-th minute."""
    return UpdatePeriod.MINUTELY.format(_FIRST + number)
