"""Letting a transaction take effect: in an order in which a reader beside it misses nothing, and again after a crash.

Puts come in the order of ``records.Kind`` (numbers, postings, rows, tables), removals after them in the reverse order. At
every moment each row has all its postings, and each table its rows; what there may be too much are postings without a row,
which readers drop, and rows of a table that is not there (yet, or any more), which nobody reads.

All of it carries versions, so doing it twice is doing it once: what was written after it stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.failpoints import failpoint
from handlers.hbase import layout
from handlers.hbase.filters import KEYS_ONLY
from handlers.hbase.writes import Writes
from state.partitions.records import Kind, kind_of


if TYPE_CHECKING:
    from handlers.hbase.gateway import Gateway
    from handlers.hbase.writes import Cleared


CELL_BYTES_MAX: Final = 4 << 20
"""HBase refuses cells of more than 10 MB."""
CLEARED_AT_ONCE: Final = 4096


def log(gateway: Gateway, writes: Writes) -> None:
    """Write a transaction as one row; when this returns it will take effect, whatever happens."""
    data = writes.to_bytes()
    parts = (data[at : at + CELL_BYTES_MAX] for at in range(0, len(data), CELL_BYTES_MAX))
    cells = {layout.numbered_cell(number): part for number, part in enumerate(parts)}
    gateway.put({layout.WRITES_ROW: cells}, writes.version)


def logged(gateway: Gateway) -> Writes | None:
    """Return the transaction that has not taken effect wholly, None where there is none; raises StateCorrupt."""
    found = gateway.rows([layout.WRITES_ROW], [layout.FAMILY]).get(layout.WRITES_ROW)
    if found is None:
        return None
    names = map(layout.numbered_cell, range(len(found.cells)))
    return Writes.from_bytes(b"".join(found.cells.get(name, b"") for name in names))


def forget(gateway: Gateway, writes: Writes) -> None:
    """Remove the row of a transaction that has taken effect."""
    gateway.delete([layout.WRITES_ROW], writes.version)


def apply(gateway: Gateway, writes: Writes) -> None:
    """Do all of it; may be repeated at any time, also when others have been applied since."""
    for kind in Kind:
        put_kind(gateway, writes, kind)
        failpoint(f"hbase-put-{kind.name.lower()}")
    for kind in reversed(Kind):
        delete_kind(gateway, writes, kind)
        failpoint(f"hbase-deleted-{kind.name.lower()}")


def put_kind(gateway: Gateway, writes: Writes, kind: Kind) -> None:
    """Put the entries of one kind."""
    found = {key: value for key, value in writes.puts.items() if kind_of(key) is kind}
    gateway.put(
        {layout.row_key(key): layout.cells(key, value) for key, value in found.items()}, writes.version
    )


def delete_kind(gateway: Gateway, writes: Writes, kind: Kind) -> None:
    """Delete the entries of one kind, and clear the ranges that begin with one."""
    doomed = [key for key in writes.deletes if kind_of(key) is kind]
    gateway.delete(map(layout.row_key, doomed), writes.version)
    for cleared in writes.cleared:
        if kind_of(cleared.start) is kind:
            _clear(gateway, cleared)


def _clear(gateway: Gateway, cleared: Cleared) -> None:
    rows = layout.row_range(cleared.start, cleared.end)
    while rows[0] < rows[1]:
        page = gateway.scan(rows, [layout.VALUE], CLEARED_AT_ONCE, KEYS_ONLY)
        gateway.delete((found.row for found in page if found.version <= cleared.version), cleared.version)
        if len(page) < CLEARED_AT_ONCE:
            return
        rows = page[-1].row + b"\x00", rows[1]
