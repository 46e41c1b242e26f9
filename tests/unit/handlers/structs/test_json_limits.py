"""A JSON text with too many values is refused before it is parsed."""

from __future__ import annotations

import subprocess
import sys
from textwrap import dedent
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.structs import json_limits, tjson
from handlers.structs.json_limits import CONTAINERS_MAX, VALUES_MAX, check_size
from handlers.structs.objects import Table
from state.errors import BadInput, LimitExceeded


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text('"\\,:[]{}x\n\u2028', max_size=9),
    lambda inner: (
        st.lists(inner, max_size=5) | st.dictionaries(st.text('"\\,[{', max_size=3), inner, max_size=5)
    ),
    max_leaves=30,
)


def count(value: Any) -> tuple[int, int]:
    """Return the number of commas and containers, and that of containers."""
    if not isinstance(value, dict | list):
        return 0, 0
    inner = [count(child) for child in (value.values() if isinstance(value, dict) else value)]
    commas = max(len(value) - 1, 0)
    return 1 + commas + sum(size for size, _ in inner), 1 + sum(containers for _, containers in inner)


def is_refused(text: bytes | str) -> bool:
    try:
        check_size(text)
    except LimitExceeded:
        return True
    return False


@given(JSON, st.booleans(), st.integers(1, 20), st.integers(1, 10))
def test_a_text_is_refused_if_and_only_if_it_has_more_values_or_containers_than_allowed(
    value: Any, as_text: bool, values_max: int, containers_max: int
) -> None:
    text = orjson.dumps(value)
    size, containers = count(value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_limits, "VALUES_MAX", values_max)
        patch.setattr(json_limits, "CONTAINERS_MAX", containers_max)
        expected = len(text) > containers_max and (size > values_max or containers > containers_max)
        assert is_refused(text.decode() if as_text else text) == expected


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"[]," * CONTAINERS_MAX + b"[]]",
        b"[" + b"{}," * CONTAINERS_MAX + b"[]]",
        b"[" + b"1," * VALUES_MAX + b"1]",
        b'["' + b'","' * VALUES_MAX + b'"]',
        b'{"a":"\\"","b":[' + b"[]," * CONTAINERS_MAX + b"[]]}",
        b"[" * 10_000_000,
    ],
)
def test_texts_above_a_limit_are_refused_as_bytes_and_as_text(text: bytes) -> None:
    assert is_refused(text)
    assert is_refused(text.decode())


@pytest.mark.parametrize(
    "text",
    [
        b"[" + b"1," * (VALUES_MAX - 3) + b"1]",
        b"[" + b"[]," * (CONTAINERS_MAX - 2) + b"[]]",
        b'{"a":"' + b"[{,:" * VALUES_MAX + b'"}',
        b'{"a":"' + b'\\"[{' * VALUES_MAX + b'"}',
        b'{"a":"\\\\","b":"' + b'\\\\[{\\"' * VALUES_MAX + b'"}',
    ],
)
def test_what_strings_contain_does_not_count(text: bytes) -> None:
    assert not is_refused(text)
    assert not is_refused(text.decode())


def test_embedded_objects_are_limited_too() -> None:
    for text in ('{"1":{"lst":["str",0' + ",[]" * CONTAINERS_MAX + "]}}", '{"1":{"lst":[{[' + "1," * 10**6):
        with pytest.raises(BadInput):
            tjson.decode(Table, text)


GROWTH_MAX_MB = 250
_DECODE = """
    import base64, gzip, json, sys
    from handlers.decoding.decoder import decode

    def peak_mb():
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024

    size = 60 * 1024 * 1024
    table = b'{"tableObjBeforeJson":"{}","tableObjAfterJson":"'
    message = {
        "lists": lambda: b'{"a":[' + b"[]," * (size // 3) + b"[]]}",
        "lists, lenient": lambda: b'{"b":"\\x01","a":[' + b"[]," * (size // 3) + b"[]]}",
        "embedded": lambda: table + b"[" + b"[]," * (size // 3) + b'[]]"}',
        "text": lambda: table + b"x" * size + b'"}',
        "text, lenient": lambda: b'{"b":"\\x01' + b"x" * size + b'"}',
    }[sys.argv[1]]()
    packed = base64.b64encode(gzip.compress(message)).decode()
    names = {"eventTime": 1, "eventType": "ALTER_TABLE", "dbName": "d", "tableName": "t"}
    record = json.dumps(names | {"eventId": 1, "messageFormat": "gzip", "message": packed}).encode()
    assert len(record) < 100_000
    del message
    with open("/proc/self/clear_refs", "w") as refs:
        refs.write("5")
    before = peak_mb()
    event = decode(record)
    try:
        event.after.value
    except Exception:
        pass
    print(peak_mb() - before)
"""


@pytest.mark.parametrize("kind", ["lists", "lists, lenient", "embedded", "text", "text, lenient"])
def test_a_record_of_a_hundred_kilobytes_needs_little_memory(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", dedent(_DECODE), kind], capture_output=True, text=True, check=True, timeout=300
    )
    assert int(done.stdout) < GROWTH_MAX_MB
