"""A signature proves that the source's relay wrote a record; keys can be replaced without a pause."""

from __future__ import annotations

import pytest

from daemon.kafka.signatures import HEADER, Signatures


OLD, NEW = b"o" * 32, b"n" * 32
VALUE = b'{"eventId":7,"part":0,"parts":1}'
SIGNED = Signatures("lake", (OLD,)).sign(VALUE)


def test_a_signature_is_valid_for_the_value_and_source_that_were_signed() -> None:
    assert Signatures("lake", (OLD,)).are_valid(VALUE, (("tideline.format", b"tideline-1"), SIGNED))


@pytest.mark.parametrize(
    ("source", "keys", "value", "headers"),
    [
        ("lake", (OLD,), VALUE.replace(b"7", b"8"), (SIGNED,)),
        ("lak", (OLD,), b"e\0" + VALUE, (SIGNED,)),
        ("other", (OLD,), VALUE, (SIGNED,)),
        ("lake", (NEW,), VALUE, (SIGNED,)),
        ("lake", (OLD,), VALUE, ()),
        ("lake", (OLD,), VALUE, ((HEADER, None),)),
        ("lake", (OLD,), VALUE, ((HEADER, b""),)),
        ("lake", (OLD,), VALUE, ((HEADER, SIGNED[1][:-1]),)),
        ("lake", (OLD,), VALUE, ((HEADER, "ключ".encode()),)),
        ("lake", (OLD,), VALUE, (("other", SIGNED[1]),)),
        ("lake", (OLD,), None, (SIGNED,)),
    ],
    ids=["value", "limits", "source", "key", "none", "null", "empty", "cut", "text", "header", "no value"],
)
def test_no_other_record_is_valid(
    source: str, keys: tuple[bytes, ...], value: bytes | None, headers: tuple[tuple[str, bytes | None], ...]
) -> None:
    assert not Signatures(source, keys).are_valid(value, headers)


def test_a_key_is_replaced_without_an_invalid_record_in_between() -> None:
    before, prepared, after = (
        Signatures("lake", (OLD,)),
        Signatures("lake", (OLD, NEW)),
        Signatures("lake", (NEW, OLD)),
    )
    for reader, relay in ((prepared, before), (before, prepared), (prepared, after), (after, prepared)):
        assert reader.are_valid(VALUE, (relay.sign(VALUE),))


def test_keys_are_not_shown() -> None:
    assert "oooo" not in repr(Signatures("lake", (OLD,)))
