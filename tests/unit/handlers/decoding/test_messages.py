from __future__ import annotations

import base64
import gzip
import json
import time
import zlib
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dev.fixtures.notifications import compress
from handlers.decoding.messages import Limits, read_object, unpack, write
from state.errors import LimitExceeded, MalformedEvent


SMALL = Limits(message_bytes=1_000_000, json_depth=10)


@pytest.mark.parametrize("form", ["gzip(json-2.0)", "GZIP(JSON-2.0)", "gzip", None, ""])
def test_a_compressed_message_is_unpacked_even_if_its_format_is_not_named(form: str | None) -> None:
    assert unpack(compress('{"txnid":7}'), form) == {"txnid": 7}


@pytest.mark.parametrize("form", ["json-0.2", "JSON-0.2", "json-2.0", "json", None])
def test_a_plain_message_is_read(form: str | None) -> None:
    assert unpack('{"txnid":7}', form) == {"txnid": 7}


def test_a_message_that_java_compressed_is_unpacked() -> None:
    assert unpack("H4sIAAAAAAACA6tWKqnIy0xRsjKvBQCrvWIqCwAAAA==", "gzip(json-2.0)") == {"txnid": 7}


def test_a_message_of_an_unknown_format_is_malformed() -> None:
    with pytest.raises(MalformedEvent, match="unknown format"):
        unpack("{}", "protobuf-1")


def test_raw_control_characters_inside_strings_are_read_and_written_strictly() -> None:
    message = unpack('{"comment":"one\ttwo\nthree\x01"}', "json-0.2")
    assert message == {"comment": "one\ttwo\nthree\x01"}
    assert write(message) == rb'{"comment":"one\ttwo\nthree\u0001"}'


def test_the_last_of_duplicate_keys_counts_in_both_parsers_as_in_java() -> None:
    assert read_object(b'{"txnid":1,"txnid":2}') == {"txnid": 2}
    assert read_object(b'{"txnid":1,"txnid":2,"raw":"\x01"}')["txnid"] == 2


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"null",
        b"[1]",
        b'"text"',
        b"17",
        b"{",
        b'{"a":NaN}',
        b'{"a":Infinity}',
        b'{"a":-Infinity}',
        b'{"a":1e400}',
        b'{"raw":"\x01","a":1e400}',
        b'{"raw":"\x01","a":NaN}',
        rb'{"a":"\ud800"}',
        b'{"raw":"\x01","a":18446744073709551616}',
        b'{"raw":"\x01","a":' + b"9" * 5000 + b"}",
        b'{"a":"\xff\xfe"}',
        b"\xef\xbb\xbf{}",
        b'{"a":1}{"a":2}',
        b"{" * 2000,
        b'{"a":' * 2000 + b"1" + b"}" * 2000,
        b"[" * 100_000 + b"]" * 100_000,
    ],
    ids=lambda text: repr(text[:24]),
)
def test_text_that_is_not_a_json_object_is_malformed(text: bytes) -> None:
    with pytest.raises(MalformedEvent):
        read_object(text)


def test_an_escaped_nul_is_text_like_any_other() -> None:
    assert read_object(rb'{"a":"\u0000"}') == {"a": "\0"}


@pytest.mark.parametrize(("levels", "allowed"), [(9, True), (10, True), (11, False), (900, False)])
def test_nesting_is_limited(levels: int, allowed: bool) -> None:
    text = b'{"a":' + b"[" * (levels - 1) + b"]" * (levels - 1) + b"}"
    if allowed:
        assert "a" in read_object(text, 10)
    else:
        with pytest.raises(LimitExceeded, match="nested"):
            read_object(text, 10)


def test_a_gzip_bomb_is_refused_before_it_grows() -> None:
    bomb = compress(b" " * 50_000_000)
    started = time.process_time()
    with pytest.raises(LimitExceeded, match="exceeds its limit"):
        unpack(bomb, "gzip", SMALL)
    assert time.process_time() - started < 5


def test_a_message_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    def text(size: int) -> str:
        return '{"a":"' + "x" * (size - 8) + '"}'

    assert unpack(compress(text(1_000_000)), "gzip", SMALL)
    assert unpack(text(1_000_000), "json", SMALL)
    for form, packed in (("gzip", compress(text(1_000_001))), ("json", text(1_000_001))):
        with pytest.raises(LimitExceeded):
            unpack(packed, form, SMALL)


@pytest.mark.parametrize(
    "packed",
    [
        "H4sI",
        "H4sI!!!!",
        "aGVsbG8=",
        "é" * 8,
        compress("{}")[:-8],
        compress("{}") + compress("{}"),
        compress("{}").rstrip("="),
        "",
    ],
)
def test_text_that_is_not_base64_of_gzip_is_malformed(packed: str) -> None:
    with pytest.raises(MalformedEvent):
        unpack(packed, "gzip(json-2.0)")


def test_a_second_gzip_member_is_not_left_out_silently() -> None:
    two = base64.b64encode(gzip.compress(b'{"a":1}') + gzip.compress(b'{"a":2}')).decode()
    with pytest.raises(MalformedEvent, match="follow"):
        unpack(two, "gzip")


def test_a_message_with_a_lone_surrogate_in_its_text_is_malformed() -> None:
    with pytest.raises(MalformedEvent, match="Unicode"):
        unpack('{"a":"\ud800"}', "json-0.2")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(st.dictionaries(st.sampled_from("abcd"), JSON, max_size=4))
def test_every_object_survives_each_encoding_and_strict_writing(message: dict[str, object]) -> None:
    text = json.dumps(message, ensure_ascii=False)
    assert unpack(text, "json-0.2") == message
    assert unpack(compress(text), "gzip(json-2.0)") == message
    assert read_object(write(message)) == message


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_an_object_or_a_typed_error(data: bytes) -> None:
    for text in (data, b'{"a":' + data + b"}", b'{"a":"' + data + b'"}'):
        with suppress(MalformedEvent, LimitExceeded):
            write(read_object(text))
    with suppress(MalformedEvent, LimitExceeded):
        unpack(compress(zlib.compress(data)), None)
