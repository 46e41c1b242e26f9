"""Decoding returns an event or raises MalformedEvent, quickly, for any record."""

from __future__ import annotations

import copy
import itertools
import time
from contextlib import suppress
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dev.fixtures.notifications import KINDS, compress, notification, write_events
from handlers.decoding.decoder import decode
from handlers.decoding.header import Arrival, peek_position
from handlers.decoding.records.encoder import encode
from handlers.decoding.records.record_writer import Record
from handlers.events import Embedded, Event, Undecodable
from state.errors import BadInput, MalformedEvent


ARRIVAL = Arrival(event_id=1, time_s=1)
RECORDS = [
    record
    for kind in KINDS
    for record in encode("s", notification(kind), write_events(kind), record_bytes_max=1 << 20)
]
OBJECTS = [
    orjson.dumps(notification(kind, form=form).set_fields())
    for kind in KINDS
    for form in ("json-0.2", "gzip(json-2.0)")
]
LISTENER = [
    orjson.dumps(
        {
            "eventType": f"ON_{kind}",
            "databaseName": "d",
            "tableName": "t",
            "table": {},
            "partitions": [{}],
            "files": ["f"],
        }
    )
    for kind in (
        "CREATE_TABLE",
        "ALTER_TABLE",
        "DROP_TABLE",
        "ADD_PARTITION",
        "ALTER_PARTITION",
        "DROP_PARTITION",
        "INSERT",
    )
]
ODD: list[Any] = [
    None, True, False, 0, -1, 1.5, 2**63, 2**64 - 1, -(2**63), 1e300, "", "x", "\0", "1", "true", "#", "###",
    "\n",
    [], [None], [[]], [1], ["x"], [{}], {}, {"a": None}, {"a": "b"}, "x" * 10_000, "\u202eevil", "H4sI",
]  # fmt: skip


def survives(value: bytes, headers: tuple[tuple[str, bytes], ...] = ()) -> None:
    started = time.process_time()
    try:
        event = decode(value, headers, arrival=ARRIVAL)
    except MalformedEvent:
        return
    assert isinstance(event, Event)
    assert type(event.event_id) is int
    assert 0 <= event.event_id < 2**63
    assert 0 <= event.part < event.parts
    ask_for_objects(event)
    assert time.process_time() - started < 5


def ask_for_objects(event: Event) -> None:
    for name in ("before", "after", "owner", "database", "statistics", "partition", "partitions"):
        value = getattr(event, name, None)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Embedded):
                with suppress(BadInput):
                    _ = item.value


@settings(deadline=None)  # the bound is in ``survives``: other tests may use the machine, too
@given(st.sampled_from(RECORDS), st.data())
def test_records_with_changed_bytes(record: Record, data: st.DataObject) -> None:
    value = bytearray(record.value)
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(value) - 1))
        match data.draw(st.sampled_from(["set", "cut", "insert", "truncate"])):
            case "set":
                value[position] = data.draw(st.integers(0, 255))
            case "cut":
                del value[position : position + data.draw(st.integers(1, 50))]
            case "insert":
                value[position:position] = data.draw(st.binary(max_size=20))
            case _:
                del value[position:]
        value = value or bytearray(b"{")
    for headers in (record.headers, ()):
        survives(bytes(value), headers)


def paths(value: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [so_far] if so_far else []
    children = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, child in children:
        found += paths(child, (*so_far, key))
    return found


@settings(deadline=None)  # the bound is in ``survives``: other tests may use the machine, too
@given(st.sampled_from([record.value for record in RECORDS] + OBJECTS + LISTENER), st.data())
def test_records_with_changed_fields(value: bytes, data: st.DataObject) -> None:
    record = orjson.loads(value)
    for _ in range(data.draw(st.integers(1, 3))):
        *parents, last = data.draw(st.sampled_from(paths(record) or [("x",)]))
        holder = record
        for key in parents:
            holder = holder[key]
        if data.draw(st.booleans()):
            holder[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
        elif isinstance(holder, dict):
            del holder[last]
    survives(orjson.dumps(record))


@pytest.mark.parametrize("kind", KINDS)
def test_every_field_with_every_odd_value(kind: str) -> None:
    for value in [record.value for record in RECORDS if f'"eventType":"{kind}"'.encode() in record.value]:
        for path, odd in itertools.product(paths(orjson.loads(value)), ODD):
            record = orjson.loads(value)
            holder = record
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = odd
            survives(orjson.dumps(record))


@given(st.binary(max_size=300))
def test_arbitrary_bytes(value: bytes) -> None:
    survives(value)
    survives(value, RECORDS[0].headers)
    with suppress(MalformedEvent):
        peek_position(value)


@pytest.mark.parametrize("kind", ["ALTER_TABLE", "COMMIT_TXN", "OPEN_TXN"])
@pytest.mark.parametrize(
    "text",
    [
        compress(b" " * 80_000_000),
        compress(b'{"a":' * 5_000_000),
        compress(b"[" * 5_000_000),
        compress('{"txnid":' + "9" * 1_000_000 + "}"),
        compress('{"raw":"\x01","txnid":' + "9" * 1_000_000 + "}"),
    ],
    ids=["bomb of spaces", "deep objects", "deep lists", "long number", "long number, lenient"],
)
def test_bombs_are_refused_quickly(kind: str, text: str) -> None:
    event = notification(kind)
    event.message = text
    started = time.process_time()
    (record,) = encode("s", event, None, record_bytes_max=512 * 1024)
    decoded = decode(record.value)
    assert isinstance(decoded, Undecodable)
    assert time.process_time() - started < 10


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_deeply_nested_embedded_objects_raise_typed_errors(depth: int) -> None:
    event = notification("CREATE_TABLE", tableObjJson='{"7":{"rec":' * depth)
    (record,) = encode("s", event, None, record_bytes_max=1 << 22)
    survives(record.value)


def test_a_million_files_are_refused_in_time() -> None:
    event = notification("INSERT", files=["u###"] * 1_000_000)
    value = orjson.dumps(event.set_fields())
    started = time.process_time()
    assert isinstance(decode(value), Undecodable)
    assert time.process_time() - started < 10
