"""A client of the SQL engine: one ``Session`` is one Hive session.

Rows contain Hive's text output (``NULL`` for null), because tests compare both clusters with each other. Each
result also lists the notification events that were logged while the statement ran, so that a test can check
what a statement causes. If several sessions are active, the events of the others are included.
"""

from __future__ import annotations

import json
import re
import socket
from dataclasses import dataclass
from typing import Any, Self

from dev.stack.errors import ComponentFailed, SqlFailed


CONNECT_TIMEOUT_S = 10.0
STATEMENT_TIMEOUT_S = 600.0
_END_OF_STATEMENT = re.compile(r";[ \t]*(?:\r?\n|$)")
_COMMENT = re.compile(r"(?m)^\s*--.*$")
_ERROR_NUMBER = re.compile(r"\[Error (\d+)\]")
_MUST_FAIL = re.compile(r"(?m)^\s*-- fails\s*$")


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """One entry of the notification log."""

    event_id: int
    event_type: str
    database: str | None
    table: str | None


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a statement: text cells, seconds in the engine, and the events logged meanwhile."""

    sql: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    seconds: float
    events: tuple[LoggedEvent, ...]

    @property
    def event_types(self) -> list[str]:
        """The types of the events in order."""
        return [event.event_type for event in self.events]


class Session:
    """One connection and one Hive session. Only one thread at a time may use it."""

    def __init__(self, host: str, port: int, timeout_s: float = STATEMENT_TIMEOUT_S) -> None:
        self._socket = socket.create_connection((host, port), timeout=CONNECT_TIMEOUT_S)
        self._socket.settimeout(timeout_s)
        self._stream = self._socket.makefile("rw", encoding="utf-8", newline="\n")

    @classmethod
    def connect(cls, address: str) -> Session:
        """Open a session at ``host:port``."""
        host, _, port = address.rpartition(":")
        return cls(host, int(port))

    def run(self, sql: str) -> Result:
        """Run one statement, without a trailing semicolon; ``set name=value`` applies to this session only.

        Raises SqlFailed if Hive refuses the statement, ComponentFailed if the engine has ended.
        """
        answer = self._request(sql)
        if not answer["ok"]:
            raise _build_failure(sql, str(answer.get("error")), int(answer.get("code", 0)))
        return Result(
            sql=sql,
            columns=tuple(answer["columns"]),
            rows=tuple(tuple(row.split("\t")) for row in answer["rows"]),
            seconds=float(answer["seconds"]),
            events=tuple(LoggedEvent(*event) for event in answer["events"]),
        )

    def rows(self, sql: str) -> list[tuple[str, ...]]:
        """Return the rows of a query."""
        return list(self.run(sql).rows)

    def script(self, text: str) -> list[Result]:
        """Run the statements of a ``.sql`` text, each terminated by a semicolon at the end of a line.

        A statement after a line ``-- fails`` must fail and has no result. Raises SqlFailed for any other
        statement that fails, and for one that should fail and succeeds.
        """
        results = []
        for raw in _END_OF_STATEMENT.split(text):
            sql = _COMMENT.sub("", raw).strip()
            if sql and _MUST_FAIL.search(raw):
                self._require_failure(sql)
            elif sql:
                results.append(self.run(sql))
        return results

    def _require_failure(self, sql: str) -> None:
        try:
            self.run(sql)
        except SqlFailed:
            return
        raise SqlFailed("the statement must fail according to the script, but succeeded", sql=sql)

    def _request(self, sql: str) -> dict[str, Any]:
        try:
            self._stream.write(json.dumps(sql) + "\n")
            self._stream.flush()
            line = self._stream.readline()
        except OSError as error:
            raise ComponentFailed(f"the SQL engine broke the connection: {error}") from error
        if not line:
            raise ComponentFailed(f"the SQL engine closed the connection while it ran: {sql}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the session; Hive rolls back its open transaction."""
        self._stream.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _build_failure(sql: str, message: str, code: int) -> SqlFailed:
    """Take the error number from the message, because the driver's code is 40000 for everything that it
    cannot compile.
    """
    precise = _ERROR_NUMBER.search(message)
    return SqlFailed(message, sql=sql, code=int(precise[1]) if precise else code)
