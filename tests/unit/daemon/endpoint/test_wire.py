"""Messages as bytes: what is written is read again, transports are recognized, and no bytes raise anything
unexpected."""

from __future__ import annotations

from io import BytesIO

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.endpoint.protocol.streams import Incoming, Transport, detect_transport
from daemon.endpoint.protocol.wire import (
    Header,
    Message,
    Value,
    read_fields,
    read_header,
    text_value,
    write_struct,
)
from daemon.endpoint.successors import split_catalog
from state.errors import BadInput, LimitExceeded
from tests.builders.metastore.raw_metastore import reply, unknown_method


LETTERS = st.characters(min_codepoint=ord("a"), max_codepoint=ord("z"))
HEADERS = st.builds(
    Header,
    name=st.text(LETTERS, min_size=1, max_size=60),
    kind=st.integers(1, 4),
    sequence=st.integers(-(2**31), 2**31 - 1),
    strict=st.booleans(),
)
TEXTS = st.dictionaries(st.integers(-(2**15), 2**15 - 1), st.text(max_size=20).map(text_value), max_size=5)


@given(HEADERS)
def test_a_header_is_read_as_it_was_written(header: Header) -> None:
    assert read_header(BytesIO(header.to_bytes()).read) == header


@given(HEADERS, st.sampled_from(Transport))
def test_the_transport_is_recognized_from_the_first_five_bytes(header: Header, transport: Transport) -> None:
    assert detect_transport(transport.wrap(header.to_bytes() + b"\x00")[:5]) is transport


@given(TEXTS)
def test_fields_are_read_as_they_were_written(fields: dict[int, Value]) -> None:
    assert read_fields(write_struct(fields.items())) == fields


@example(b"\x0e\x00\x00\x00\x80\x00\x00\x00")  # a set of negative size
@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_a_struct_or_bad_input(data: bytes) -> None:
    try:
        fields = read_fields(data)
    except BadInput:
        return
    assert len(write_struct(fields.items())) <= len(data), "a repeated field counts once"


@given(HEADERS, TEXTS, st.sampled_from(Transport), st.integers(1, 40), st.binary(max_size=8))
def test_a_message_ends_where_it_ends_however_it_arrives(
    header: Header, fields: dict[int, Value], transport: Transport, size: int, following: bytes
) -> None:
    raw = header.to_bytes() + write_struct(fields.items())
    stream = BytesIO(transport.wrap(raw) + following)
    incoming = Incoming(lambda: stream.read(size), transport)
    message = incoming.message(incoming.read_to_end())
    assert message == Message(header, write_struct(fields.items()), raw)
    assert incoming.unread() + stream.read() == following


@given(st.integers(0, 60))
def test_a_message_above_the_limit_is_refused(limit: int) -> None:
    raw = reply("call", write_struct([(1, text_value("x" * 60))]))
    stream = BytesIO(raw)
    with pytest.raises(LimitExceeded):
        Incoming(lambda: stream.read(16), Transport.BUFFERED, limit).read_to_end()


def test_only_thrifts_own_exception_means_an_unknown_method() -> None:
    def parse(raw: bytes) -> Message:
        stream = BytesIO(raw)
        incoming = Incoming(lambda: stream.read(100), Transport.BUFFERED)
        return incoming.message(incoming.read_to_end())

    assert parse(unknown_method("get_table")).is_unknown_method
    assert not parse(reply("get_table")).is_unknown_method
    request = Message(Header("get_table", 1, 1), b"\x00")
    assert not request.failure("internal error").is_unknown_method


@pytest.mark.parametrize(
    ("database", "expected"),
    [
        ("shop", (None, "shop")),
        ("@hive#shop", ("hive", "shop")),
        ("@shop", (None, "@shop")),
        ("a#b", (None, "a#b")),
    ],
)
def test_a_catalog_is_split_from_its_database(database: str, expected: tuple[str | None, str]) -> None:
    assert split_catalog(database) == expected
