"""Standard input: for single queries, and for sources that Tideline does not support directly.

The first character shows the form: JSON lines ``{"query": …, "user": …, "at": …}``, or SQL, whose statements
end with a semicolon at the end of a line. There is no position: a text given twice counts twice, on the same
day and for the same user.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

import orjson

from state.errors import BadInput, LimitExceeded
from streaming.mining.model import Form, QueryText
from streaming.mining.sources.source import DeadInput, QueryBatch


QUERIES_PER_BATCH: Final = 1_000
LINE_BYTES: Final = 4 * 1024 * 1024


@dataclass(slots=True)
class StandardInputSource:
    """A stream of bytes, read to its end."""

    name: str
    stream: IO[bytes]
    user: str = ""
    clock: Callable[[], float] = time.time

    # ARG002: part of the protocol; this source has no position
    def batches(self, position: str | None) -> Iterator[QueryBatch]:  # noqa: ARG002
        """Yield everything up to the end of the stream."""
        queries: list[QueryText] = []
        dead: list[DeadInput] = []
        for query in self._queries():
            queries.append(query) if isinstance(query, QueryText) else dead.append(query)
            if len(queries) + len(dead) >= QUERIES_PER_BATCH:
                yield QueryBatch(tuple(queries), None, tuple(dead))
                queries, dead = [], []
        if queries or dead:
            yield QueryBatch(tuple(queries), None, tuple(dead))

    def _queries(self) -> Iterator[QueryText | DeadInput]:
        statement: list[str] = []
        size, is_json = 0, None
        for number, line in enumerate(self._lines(), 1):
            if is_json is None and line.strip():
                is_json = line.lstrip().startswith(b"{")
            if len(line) > LINE_BYTES or size > LINE_BYTES:
                yield DeadInput.of(
                    f"line {number}", LimitExceeded("a query is too long", limit_bytes=LINE_BYTES)
                )
                statement, size = [], 0
            elif is_json:
                if line.strip():
                    yield self._read_json(line, number)
            else:
                statement.append(line.decode(errors="replace"))
                size += len(line)
                if line.rstrip().endswith(b";"):
                    yield self._read_sql(statement, number)
                    statement, size = [], 0
        if "".join(statement).strip():
            yield self._read_sql(statement, number)

    def _lines(self) -> Iterator[bytes]:
        """Yield lines; if a line is too long, only its beginning."""
        is_rest = False
        while line := self.stream.readline(LINE_BYTES + 1):
            if not is_rest:
                yield line
            is_rest = not line.endswith(b"\n")

    def _read_sql(self, statement: list[str], number: int) -> QueryText:
        return QueryText("".join(statement), self.user, int(self.clock()), self.name, f"line {number}")

    def _read_json(self, line: bytes, number: int) -> QueryText | DeadInput:
        try:
            given: Any = orjson.loads(line)
            at_s, form = _read_time(given.get("at", self.clock())), Form(given.get("form", Form.SQL))
            texts = given["query"], given.get("user", self.user), given.get("database") or ""
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            return DeadInput.of(f"line {number}", BadInput("a line must be a query", reason=str(error)[:200]))
        if not all(isinstance(each, str) for each in texts):
            return DeadInput.of(f"line {number}", BadInput("query, user and database must be strings"))
        text, user, database = texts
        return QueryText(text, user, at_s, self.name, f"line {number}", form, database or None)


def _read_time(at: object) -> int:
    if not isinstance(at, (int, float)):
        # TRY004: one error for all malformed lines
        raise ValueError("'at' must be seconds since 1970 as a number")  # noqa: TRY004
    return int(at)
