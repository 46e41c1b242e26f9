"""Records that break careless parsers, each with what becomes of it by docs/SPLITTING.md and docs/FLAT.md.

Every record has an identity of its own, so that a lost or duplicated one is noticed. Records that cannot have
one, such as an empty line, are sent once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tests.builders.flat.naive_reader import JavaDouble, as_text, identity


DEEP: Final = 300
TOO_DEEP: Final = 5_000
"""More levels than Spark's JSON reader accepts, so that the record is malformed."""
TOO_MANY_DIGITS: Final = 2_000
"""Likewise."""
LONG: Final = "é" * 30_000
RECORD_BYTES: Final = 100_000
"""The ``limits.record_bytes`` of tables that are killed."""
HOSTILE_KEYS: Final = ("x", "deep", "N", "a.b", "it's", "`t`, :/", " ", "é")
"""Members that hostile records have besides those of all records, and that become columns."""
DOUBLES: Final = {
    "-0.0": "-0.0",
    "0.1000000000000000055511151231257827021181583404541015625": "0.1",
    "1e5": "100000.0",
    "5e-324": "4.9E-324",
    "1e-400": "0.0",
    "1E+16": "1.0E16",
    "1.10": "1.1",
    "123456789.123456789123456789": "1.2345678912345679E8",
}
"""Numbers as they are sent, and their texts in Java."""
FINITE_CALLS: Final = 3
"""How often ``x`` has only finite values, so that it is DOUBLE at first. Then it becomes text."""


@dataclass(frozen=True)
class HostileRow:
    """The bytes of a record and the values that Spark reads from it; none if it is malformed, ``is_lost`` if
    it has no valid time."""

    text: bytes
    event: dict[str, Any] = field(default_factory=dict)
    is_lost: bool = False

    @property
    def identity(self) -> str:
        """As ``naive_reader.identity`` of its row or dead letter."""
        return identity({"_rescued": as_text(self.text)})


def hostile_rows(name: str, epoch: int, number: int) -> Iterator[HostileRow]:
    """Yield records of the hour of ``epoch``; ``number`` is another one at every call."""
    yield from _readable(name, epoch)
    yield from _with_names(name, epoch)
    yield from _with_doubles(name, epoch, number)
    yield from _malformed(name, epoch, number)
    yield from _of_limit(name, epoch)
    yield from _without_time(name)
    if number == 0:
        yield from (HostileRow(b""), HostileRow(b"null"), HostileRow(b"{}", is_lost=True))


def _row(name: str, epoch: int, kind: str, text: str | bytes, **values: Any) -> HostileRow:
    """Return a record; ``text`` are its members beside the time and ``uuid``."""
    uuid = f"{kind} {name}"
    members = text if isinstance(text, bytes) else text.encode()
    head = f'{{"epoch": {epoch}, "uuid": "{uuid}", '.encode()
    return HostileRow(head + members + b"}", {"epoch": epoch, "uuid": uuid, **values})


def _readable(name: str, epoch: int) -> Iterator[HostileRow]:
    row = partial(_row, name, epoch)
    yield row("twice", '"n": 1, "n": 2, "action": "a", "action": "b"', n=2, action="b")
    yield row("then null", '"n": 1, "n": null, "action": null, "action": "b"', action="b")
    arrays = "[" * DEEP + "]" * DEEP
    yield row("deep", f'"n": 5, "deep": {arrays}', n=5, deep=json.loads(arrays))
    mixed = '{"z": [1, {"y": 1.10}, null, "a.b"], "": {}}'
    yield row("deep object", f'"n": 5, "deep": {mixed}', n=5, deep=json.loads(mixed))
    yield row("infinite", '"n": 1e400', n=math.inf)
    yield row("digits", f'"n": {"9" * 400}', n=int("9" * 400))
    yield row("beyond 64 bits", '"n": -9223372036854775809', n=-9223372036854775809)
    yield row("invalid", b'"n": 6, "action": "a\xff"', n=6, action="a\ufffd")
    yield row("invalid misfit", b'"n": "\\u0000", "action": "\xe4\xb8"', n="\0", action="\ufffd")
    yield row("separators", '"n": 7, "action": "a\u2028\x85\\r\\n"', n=7, action="a\u2028\x85\r\n")
    yield row("long", f'"n": 8, "action": "{LONG}"', n=8, action=LONG)
    end = row("carriage return", '"n": 9', n=9)
    yield HostileRow(end.text + b"\r", end.event)


def _with_names(name: str, epoch: int) -> Iterator[HostileRow]:
    """Yield records whose members have names that are easily confused."""
    row = partial(_row, name, epoch)
    yield row(
        "escaped names",
        '"\\u006e": 11, "act\\u0069on": "a", "\\u0078": 1.5',
        n=11,
        action="a",
        x=JavaDouble(1.5),
    )
    upper = '"N": "upper", "Action": "b", "UUID": "wrong", "Epoch": 0, "EPOCH": null, "X": 1'
    yield row("other case", f'{upper}, "n": 12', n=12, N="upper")
    near = '"": 0, "": 1, "n ": 2, " n": 3, "$.n": 4, "[\'n\']": 5, "n.x": 6, "action/": 7, "${n}": 8'
    yield row("near names", f'{near}, "n": 13', n=13)
    odd = {each: f"value of {each}" for each in HOSTILE_KEYS[3:]}
    members = ", ".join(f"{json.dumps(member)}: {json.dumps(value)}" for member, value in odd.items())
    yield row("odd names", f'{members}, "a": {{"b": "nested"}}, "n": 14', n=14, **odd)


def _with_doubles(name: str, epoch: int, number: int) -> Iterator[HostileRow]:
    row = partial(_row, name, epoch)
    for index, (sent, text) in enumerate(DOUBLES.items()):
        yield row(f"double {index}", f'"n": 15, "x": {sent}', n=15, x=JavaDouble(sent, text))
    if number >= FINITE_CALLS:
        yield row("negative infinity", '"n": 16, "x": -1e400', n=16, x=-math.inf)


def _malformed(name: str, epoch: int, number: int) -> Iterator[HostileRow]:
    event = json.dumps({"epoch": epoch, "uuid": f"malformed {name}", "n": 1}).encode()
    yield HostileRow(b"\xef\xbb\xbf" + event)
    yield HostileRow(event.decode().encode("utf-16"))
    yield HostileRow(event[:-1])
    yield HostileRow(b"[" + event + b"]")
    yield HostileRow(b" " * (number + 1))
    yield HostileRow(b"\xff\xfe " + name.encode())
    yield HostileRow(str(1_000_000 + number).encode())
    yield HostileRow(event[:-1] + b', "deep": ' + b"[" * TOO_DEEP + b"]" * TOO_DEEP + b"}")
    yield HostileRow(event[:-1] + b', "digits": ' + b"9" * (TOO_MANY_DIGITS * 3) + b"}")


def _of_limit(name: str, epoch: int) -> Iterator[HostileRow]:
    """Yield records of exactly the largest size, and of one byte more, which are lost."""
    for kind, size in (("of the limit", RECORD_BYTES), ("beyond the limit", RECORD_BYTES + 1)):
        row = _row(name, epoch, kind, '"n": 17, "pad": ""', n=17)
        padded = row.text[:-2] + b"x" * (size - len(row.text)) + row.text[-2:]
        is_lost = size > RECORD_BYTES
        yield HostileRow(padded, {} if is_lost else row.event, is_lost)
        junk = f"junk {kind} {name}".encode()
        yield HostileRow(junk + b"\xff" * (size - len(junk)), is_lost=is_lost)


def _without_time(name: str) -> Iterator[HostileRow]:
    for index, time in enumerate(("1e400", "9223372036854775808", "-1", "true", '"NaN"', "[1]", '"\\u0000"')):
        yield HostileRow(f'{{"epoch": {time}, "uuid": "no time {index} {name}"}}'.encode(), is_lost=True)
