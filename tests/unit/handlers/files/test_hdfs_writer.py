"""What the client of HDFS is given to write, and what is done with the bytes that it returns."""

from __future__ import annotations

from typing import Any, cast

from handlers.files.paths import parse_location
from handlers.files.systems.hdfs import HdfsFiles, HdfsReader, HdfsWriter


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


class ReadingStream:
    """A stream of ``hdfs-native`` that is read."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def read(self, size: int) -> bytes:
        assert size == 8
        return self.data


def test_bytes_of_the_client_are_read_and_written_without_a_copy() -> None:
    data, stream, place = b"abc" * 2, RecordingStream(), parse_location("hdfs://nn/t/f")
    chunk = HdfsReader(cast("Any", ReadingStream(data)), place).read_chunk(memoryview(bytearray(8)))
    HdfsWriter(None, cast("Any", stream), place, place).write(chunk)
    assert stream.given[0] is data


class RecordingClient:
    """A client of ``hdfs-native`` that records its calls, and has no directory at first."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    # ARG002: the client's signature
    def mkdirs(self, path: str, mode: int, *, create_parent: bool) -> None:  # noqa: ARG002
        self.calls.append(f"mkdirs {path}")

    def create(self, path: str, options: Any) -> RecordingStream:  # noqa: ARG002 - likewise
        self.calls.append("create")
        if "mkdirs /t" not in self.calls:
            raise FileNotFoundError(path)
        return RecordingStream()


def test_a_directory_is_created_only_if_it_is_missing() -> None:
    client, place = RecordingClient(), parse_location("hdfs://nn/t/f")
    files = HdfsFiles(client)
    files.create(place, 1)
    assert client.calls == ["create", "mkdirs /t", "create"]
    files.create(place, 1)
    assert client.calls[3:] == ["create"]
