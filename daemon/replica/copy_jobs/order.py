"""What the daemon sends to the driver of a copy job, over its standard input: settings and copies, one JSON document in each line.

An empty line ends the order. The driver keeps its standard input open, because its end means that the daemon has ended. The settings
contain secrets of file systems, so they are on no disk and in no command line.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import orjson

from handlers.files.copying.jobs import SizedTask
from state.errors import MalformedEvent
from streaming.copyjob.share import ShareSettings, read_copy, write_copy
from streaming.settings import SparkSettings


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import BinaryIO

    from streaming.copyjob.job import JobSettings


Numbered = tuple[int, SizedTask]


def write_order(settings: JobSettings, copies: Iterable[Numbered]) -> Iterator[bytes]:
    """Yield the lines of an order."""
    yield orjson.dumps(asdict(settings), default=dict) + b"\n"
    for number, copy in copies:
        yield orjson.dumps([number, write_copy(copy)]) + b"\n"
    yield b"\n"


def read_order(stream: BinaryIO) -> tuple[JobSettings, list[Numbered]]:
    """Read an order; raise MalformedEvent if it is invalid or not complete."""
    from streaming.copyjob.job import JobSettings

    lines: list[bytes] = []
    while (line := stream.readline()) != b"\n":
        if not line:
            raise MalformedEvent("the order of a copy job is not complete", lines=len(lines))
        lines.append(line)
    try:
        given: dict[str, Any] = orjson.loads(lines[0])
        share, spark = ShareSettings(**given.pop("share")), SparkSettings(**given.pop("spark"))
        copies = [(int(number), read_copy(values)) for number, values in map(orjson.loads, lines[1:])]
        return JobSettings(share, spark, **given), copies
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise MalformedEvent("the order of a copy job cannot be read", reason=repr(error)) from error
