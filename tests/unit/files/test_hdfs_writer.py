"""What the client of HDFS is given to write."""

from __future__ import annotations

from typing import Any, cast

from handlers.files.hdfs import HdfsWriter
from handlers.files.paths import parse_location


class RecordingStream:
    """A stream of ``hdfs-native`` that keeps what it is given."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def write(self, data: Any) -> None:
        self.given.append(data)


def test_the_client_is_given_bytes_because_it_reads_views_item_by_item() -> None:
    stream, place = RecordingStream(), parse_location("hdfs://nn/t/f")
    writer = HdfsWriter(None, cast("Any", stream), place, place)
    writer.write(memoryview(bytearray(b"abc"))[1:])
    assert stream.given == [b"bc"]
    assert type(stream.given[0]) is bytes
