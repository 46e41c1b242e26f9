"""Records that break careless parsers, each with what becomes of it by docs/SPLITTING.md and docs/FLAT.md.

Every record has an identity of its own, so that a lost or duplicated one is noticed. Records that cannot have one, such as an empty
line, are sent once.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from tests.builders.flat.naive_reader import as_text, identity


if TYPE_CHECKING:
    from collections.abc import Iterator


DEEP: Final = 300
TOO_DEEP: Final = 5_000
"""More levels than Spark's JSON reader accepts, so that the record is malformed."""
TOO_MANY_DIGITS: Final = 2_000
"""Likewise."""
LONG: Final = "é" * 30_000


@dataclass(frozen=True)
class HostileRow:
    """The bytes of a record and the values that Spark reads from it; none if it is malformed, ``is_lost`` if it has no valid time."""

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
    yield from _malformed(name, epoch, number)
    yield from _without_time(name)
    if number == 0:
        yield from (HostileRow(b""), HostileRow(b"null"), HostileRow(b"{}", is_lost=True))


def _readable(name: str, epoch: int) -> Iterator[HostileRow]:
    def row(kind: str, text: str | bytes, **values: Any) -> HostileRow:
        """Return a record; ``text`` are its members beside the time and ``uuid``."""
        uuid = f"{kind} {name}"
        members = text if isinstance(text, bytes) else text.encode()
        head = f'{{"epoch": {epoch}, "uuid": "{uuid}", '.encode()
        return HostileRow(head + members + b"}", {"epoch": epoch, "uuid": uuid, **values})

    yield row("twice", '"n": 1, "n": 2, "action": "a", "action": "b"', n=2, action="b")
    yield row("then null", '"n": 1, "n": null, "action": null, "action": "b"', action="b")
    yield row("deep", f'"n": 5, "deep": {"[" * DEEP}{"]" * DEEP}', n=5)
    yield row("infinite", '"n": 1e400', n=math.inf)
    yield row("digits", f'"n": {"9" * 400}', n=int("9" * 400))
    yield row("beyond 64 bits", '"n": -9223372036854775809', n=-9223372036854775809)
    yield row("invalid", b'"n": 6, "action": "a\xff"', n=6, action="a\ufffd")
    yield row("invalid misfit", b'"n": "\\u0000", "action": "\xe4\xb8"', n="\0", action="\ufffd")
    yield row("separators", '"n": 7, "action": "a\u2028\x85\\r\\n"', n=7, action="a\u2028\x85\r\n")
    yield row("long", f'"n": 8, "action": "{LONG}"', n=8, action=LONG)
    end = row("carriage return", '"n": 9', n=9)
    yield HostileRow(end.text + b"\r", end.event)


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


def _without_time(name: str) -> Iterator[HostileRow]:
    for index, time in enumerate(("1e400", "9223372036854775808", "-1", "true", '"NaN"', "[1]", '"\\u0000"')):
        yield HostileRow(f'{{"epoch": {time}, "uuid": "no time {index} {name}"}}'.encode(), is_lost=True)
