"""The connection to HBase's Thrift gateway: one at a time, opened when it is needed, opened again once when it breaks.

Repeating is safe because every message is: reads are reads, and writes carry their version (``layout``), so that one that
arrives twice, or late, changes nothing. What fails twice is ``HBaseUnavailable``. No exception of happybase or thriftpy2
leaves this module.

A scan is asked for in pages of its own scanner each: a scanner that is kept open between two items would have to be closed by
whoever stops in the middle, and would time out with whoever is slow.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from handlers.hbase.layout import FAMILIES, FAMILY, Cells
from state.errors import ConfigError, HBaseUnavailable, InvalidRequest


if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


T = TypeVar("T")
ROWS_MAX: Final = 1000
"""Rows in one message."""
BYTES_MAX: Final = 4 << 20
"""Bytes in one message of writes, unless a single row has more."""
_REASON_CHARS_MAX: Final = 300


class Found(NamedTuple):
    """A row of a scan: its key, its cells, and the version of its newest cell."""

    row: bytes
    cells: Cells
    version: int


class Gateway:
    """Questions and writes to one HBase table, from any thread."""

    def __init__(self, connect: Callable[[], Any], table: str, where: str) -> None:
        """Make the table where it is missing; ``connect`` opens a ``happybase.Connection``. Raises HBaseUnavailable."""
        self._connect = connect
        self._table = table
        self._where = where
        self._lock = threading.RLock()
        self._connection: Any = None
        self.reconnects = 0
        """Since start."""
        self._ask(self._ensure_table)

    def scan(
        self,
        rows: tuple[bytes, bytes],
        columns: Sequence[bytes],
        limit: int,
        filter_text: bytes | None = None,
    ) -> list[Found]:
        """Return the first ``limit`` rows with ``start <= row < end`` that have one of ``columns``."""

        def scan(table: Any) -> list[Found]:
            found = table.scan(
                row_start=rows[0],
                row_stop=rows[1],
                columns=list(columns),
                filter=filter_text,
                include_timestamp=True,
                batch_size=limit,
                limit=limit,
            )
            return [_found(row, stored) for row, stored in found]

        return self._ask(scan)

    def rows(self, rows: Sequence[bytes], columns: Sequence[bytes]) -> dict[bytes, Found]:
        """Return those of ``rows`` that have one of ``columns``, by row."""

        def get(table: Any) -> dict[bytes, Found]:
            answers = (
                table.rows(some, columns=list(columns), include_timestamp=True)
                for some in _chunks(rows, ROWS_MAX)
            )
            return {row: _found(row, stored) for answer in answers for row, stored in answer if stored}

        return self._ask(get)

    def put(self, rows: Mapping[bytes, Cells], version: int) -> None:
        """Write cells; a row's cells become visible together."""
        for some in _chunks_by_size(rows.items()):
            self._ask(partial(_send, version=version, rows=some))

    def delete(self, rows: Iterable[bytes], version: int) -> None:
        """Remove rows as far as they are not newer than a version."""
        for some in _chunks(list(rows), ROWS_MAX):
            removed = [(row, None) for row in some]
            self._ask(partial(_send, version=version, rows=removed))

    def add(self, row: bytes, column: bytes, amount: int) -> int:
        """Add to a counter and return the sum; where the answer is lost it may have been added twice."""
        return int(self._ask(lambda table: table.counter_inc(row, column, amount)))

    def close(self) -> None:
        """Close the connection; a later question opens it again."""
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                with suppress(OSError):
                    connection.close()

    def _ask(self, question: Callable[[Any], T]) -> T:
        """Ask; where the connection breaks, ask once more on a new one."""
        from thriftpy2.thrift import TException

        with self._lock:
            try:
                return self._once(question)
            except _interface().IOError as error:  # an answer, behind which HBase has tried for long enough
                raise self._unavailable(error) from error
            except (OSError, EOFError, TException):
                self.reconnects += 1
            try:
                return self._once(question)
            except (OSError, EOFError, TException) as error:
                raise self._unavailable(error) from error

    def _once(self, question: Callable[[Any], T]) -> T:
        """Ask; whatever interrupts an answer, the rest of it must not be taken for the next one."""
        try:
            return question(self._opened())
        except BaseException:
            self.close()
            raise

    def _opened(self) -> Any:
        if self._connection is None:
            self._connection = self._connect()
        return self._connection.table(self._table)

    def _ensure_table(self, _: Any) -> None:
        if self._table.encode() not in self._connection.tables():
            with suppress(_interface().AlreadyExists):
                self._connection.create_table(self._table, FAMILIES)

    def _unavailable(self, error: Exception) -> HBaseUnavailable | InvalidRequest:
        said = getattr(error, "message", None) or str(error) or type(error).__name__
        text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
        reason = text.partition("\n")[0][:_REASON_CHARS_MAX]
        if isinstance(error, _interface().IllegalArgument):
            return InvalidRequest(
                "HBase refuses what it was asked", where=self._where, table=self._table, reason=reason
            )
        return HBaseUnavailable("HBase does not answer", where=self._where, table=self._table, reason=reason)


def connector(host: str, port: int, timeout_s: float) -> Callable[[], Any]:
    """Return how to open a connection: binary protocol, buffered transport, ``timeout_s`` for each message.

    Raises ConfigError where happybase is not installed.
    """
    if find_spec("happybase") is None:
        raise ConfigError(
            "HBase needs the package happybase", hint="Install Tideline with its extra: tideline[hbase]."
        )

    def connect() -> Any:
        import happybase

        timeout_ms = max(1, round(timeout_s * 1000))
        return happybase.Connection(host, port, timeout=timeout_ms, protocol="binary", transport="buffered")

    return connect


def _interface() -> Any:
    """Return the module of HBase's own exceptions, which happybase makes when it is imported."""
    import_module("happybase")
    return import_module("Hbase_thrift")


def _found(row: bytes, stored: Mapping[bytes, tuple[bytes, int]]) -> Found:
    cells = {name: value for name, (value, _) in stored.items()}
    return Found(row, cells, max(version for _, version in stored.values()))


def _send(table: Any, version: int, rows: Iterable[tuple[bytes, Cells | None]]) -> None:
    """Send one message of writes; None removes a row's cells."""
    batch = table.batch(timestamp=version)
    for row, cells in rows:
        if cells is None:
            batch.delete(row, columns=[FAMILY])
        else:
            batch.put(row, cells)
    batch.send()


def _chunks(items: Sequence[T], limit: int) -> Iterator[Sequence[T]]:
    left = iter(items)
    while some := list(islice(left, limit)):
        yield some


def _chunks_by_size(rows: Iterable[tuple[bytes, Cells]]) -> Iterator[list[tuple[bytes, Cells | None]]]:
    some: list[tuple[bytes, Cells | None]] = []
    size_bytes = 0
    for row, cells in rows:
        row_bytes = sum(len(row) + len(name) + len(value) for name, value in cells.items())
        if some and (len(some) == ROWS_MAX or size_bytes + row_bytes > BYTES_MAX):
            yield some
            some, size_bytes = [], 0
        some.append((row, cells))
        size_bytes += row_bytes
    if some:
        yield some
