"""The connection to HBase's Thrift gateway: one at a time, opened when needed, reopened once after a failure.

Every message may be repeated: reads change nothing, and writes carry their version (``layout``), so a write
that arrives twice or late changes nothing. A second failure raises ``HBaseUnavailable``. No exception of
happybase or thriftpy2 leaves this module.

The gateway reads a scan in pages, each with its own scanner. A scanner that stayed open between two items
would have to be closed by every reader that stops early, and would time out for slow readers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, TypeVar

from handlers.hbase.layout import FAMILIES, FAMILY, Cells
from state.errors import ConfigError, HBaseUnavailable, InvalidRequest
from state.pieces import in_pieces


T = TypeVar("T")
ROWS_MAX: Final = 1000
"""Rows in one message."""
BYTES_MAX: Final = 4 << 20
"""Bytes in one message of writes, unless a single row is larger."""
_REASON_CHARS_MAX: Final = 300


class StoredRow(NamedTuple):
    """A row read from HBase: its key, its cells, and the version of its newest cell."""

    row: bytes
    cells: Cells
    version: int


class Gateway:
    """Reads and writes one HBase table; thread-safe."""

    def __init__(self, connect: Callable[[], Any], table: str, where: str) -> None:
        """Create the table if it is missing;
        ``connect`` opens a ``happybase.Connection``. Raises HBaseUnavailable.
        """
        self._connect = connect
        self._table = table
        self._where = where
        self._lock = threading.RLock()
        self._connection: Any = None
        self.reconnects = 0
        """Since start."""
        self._request(self._ensure_table)

    def scan(
        self,
        rows: tuple[bytes, bytes],
        columns: Sequence[bytes],
        limit: int,
        filter_text: bytes | None = None,
    ) -> list[StoredRow]:
        """Return the first ``limit`` rows with
        ``start <= row < end`` that have at least one of ``columns``.
        """

        def scan(table: Any) -> list[StoredRow]:
            pairs = table.scan(
                row_start=rows[0],
                row_stop=rows[1],
                columns=list(columns),
                filter=filter_text,
                include_timestamp=True,
                batch_size=limit,
                limit=limit,
            )
            return [_parse_row(row, stored) for row, stored in pairs]

        return self._request(scan)

    def rows(self, rows: Sequence[bytes], columns: Sequence[bytes]) -> dict[bytes, StoredRow]:
        """Return those of ``rows`` that have at least one of ``columns``, by row key."""

        def get(table: Any) -> dict[bytes, StoredRow]:
            answers = (
                table.rows(chunk, columns=list(columns), include_timestamp=True)
                for chunk in in_pieces(rows, ROWS_MAX)
            )
            return {row: _parse_row(row, stored) for answer in answers for row, stored in answer if stored}

        return self._request(get)

    def put(self, rows: Mapping[bytes, Cells], version: int) -> None:
        """Write cells; a row's cells become visible together."""
        for chunk in _chunks_by_size(rows.items()):
            self._request(partial(_send_batch, version=version, rows=chunk))

    def delete(self, rows: Iterable[bytes], version: int) -> None:
        """Remove the cells of rows, except those newer than a version."""
        for chunk in in_pieces(list(rows), ROWS_MAX):
            removed = [(row, None) for row in chunk]
            self._request(partial(_send_batch, version=version, rows=removed))

    def add(self, row: bytes, column: bytes, amount: int) -> int:
        """Add to a counter and return the sum; if the answer is lost, the amount may be added twice."""
        return int(self._request(lambda table: table.counter_inc(row, column, amount)))

    def close(self) -> None:
        """Close the connection; a later call opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(OSError):
                    connection.close()

    def _request(self, request: Callable[[Any], T]) -> T:
        """Send a request; if the connection breaks, send it once more on a new one."""
        from thriftpy2.thrift import TException

        with self._lock:
            try:
                return self._send_once(request)
            except _interface().IOError as error:  # an answer: HBase itself has already retried
                raise self._unavailable(error) from error
            except (OSError, EOFError, TException):
                self.reconnects += 1
            try:
                return self._send_once(request)
            except (OSError, EOFError, TException) as error:
                raise self._unavailable(error) from error

    def _send_once(self, request: Callable[[Any], T]) -> T:
        """Send a request. After any interruption, close the connection, so that the rest of the answer is
        not read as the next answer.
        """
        try:
            return request(self._open_table())
        except BaseException:
            self.close()
            raise

    def _open_table(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection.table(self._table)

    def _ensure_table(self, _: Any) -> None:
        if self._table.encode() not in self._connection.tables():
            with suppress(_interface().AlreadyExists):
                self._connection.create_table(self._table, FAMILIES)

    def _unavailable(self, error: Exception) -> HBaseUnavailable | InvalidRequest:
        message = getattr(error, "message", None) or str(error) or type(error).__name__
        text = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        reason = text.partition("\n")[0][:_REASON_CHARS_MAX]
        if isinstance(error, _interface().IllegalArgument):
            return InvalidRequest(
                "HBase refuses the request", where=self._where, table=self._table, reason=reason
            )
        return HBaseUnavailable("HBase does not answer", where=self._where, table=self._table, reason=reason)


def make_connector(host: str, port: int, timeout_s: float) -> Callable[[], Any]:
    """Return a function that opens a connection:
    binary protocol, buffered transport, ``timeout_s`` for each message.

    Raises ConfigError without happybase.
    """
    if find_spec("happybase") is None:
        raise ConfigError(
            "HBase needs the package happybase",
            hint="Install Tideline with the extra 'hbase': tideline[hbase].",
        )

    def connect() -> Any:
        import happybase

        timeout_ms = max(1, round(timeout_s * 1000))
        return happybase.Connection(host, port, timeout=timeout_ms, protocol="binary", transport="buffered")

    return connect


def _interface() -> Any:
    """Return the module of HBase's exceptions, which happybase creates when imported."""
    import_module("happybase")
    return import_module("Hbase_thrift")


def _parse_row(row: bytes, stored: Mapping[bytes, tuple[bytes, int]]) -> StoredRow:
    cells = {name: value for name, (value, _) in stored.items()}
    return StoredRow(row, cells, max(version for _, version in stored.values()))


def _send_batch(table: Any, version: int, rows: Iterable[tuple[bytes, Cells | None]]) -> None:
    """Send one message of writes; None removes a row's cells."""
    batch = table.batch(timestamp=version)
    for row, cells in rows:
        if cells is None:
            batch.delete(row, columns=[FAMILY])
        else:
            batch.put(row, cells)
    batch.send()


def _chunks_by_size(rows: Iterable[tuple[bytes, Cells]]) -> Iterator[list[tuple[bytes, Cells | None]]]:
    chunk: list[tuple[bytes, Cells | None]] = []
    size_bytes = 0
    for row, cells in rows:
        row_bytes = sum(len(row) + len(name) + len(value) for name, value in cells.items())
        if chunk and (len(chunk) == ROWS_MAX or size_bytes + row_bytes > BYTES_MAX):
            yield chunk
            chunk, size_bytes = [], 0
        chunk.append((row, cells))
        size_bytes += row_bytes
    if chunk:
        yield chunk
