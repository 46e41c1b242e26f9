"""The undo log: the values before a long transaction wrote some of its entries early.

A transaction that outgrows its buffer writes rows and postings before it commits (``transaction``). If it
then fails, counts, table records and the caller's position are lost while these entries remain, and a
repeated transaction would mistake them for old entries and not count them again. Before each early write, the
log therefore stores the values under its keys, in its own rows. The next transaction first rolls back one
that failed or was killed:

1. ``compose`` and ``write`` log the entries, then they are overwritten or removed; this may repeat;
2. the transaction commits by writing the redo row, even if nothing else is left to write (``redo_log``);
   ``remove`` forgets the log;
3. without a redo row, ``roll_back`` restores the logged entries, the latest first, and forgets each row of
   the log when it is restored.

Restored entries carry new versions, so a late message of the failed transaction has no effect. Restoring may
be repeated at any point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from handlers.failpoints import failpoint
from handlers.hbase import layout
from handlers.hbase.gateway import Gateway
from handlers.hbase.layout import KEYS_ONLY
from handlers.hbase.redo_log import Writes, delete_kind, join_cells, put_kind, split_cells
from handlers.hbase.transaction import StoredEntry
from state.partitions.index.records import EntryKind
from state.pieces import in_pieces


KEYS_OF_A_ROW: Final = 1000
"""Entries logged in one row, which is read and restored at once."""
_ROWS: Final = (layout.UNDO_ROWS, layout.BEHIND_UNDO_ROWS)
_ROWS_AT_ONCE: Final = 4096
_UNDONE: Final = (EntryKind.POSTING, EntryKind.ROW)


def compose(
    keys: Sequence[bytes], read: Callable[[Sequence[bytes]], list[StoredEntry]], version: int
) -> dict[bytes, layout.Cells]:
    """Return the rows of the log for the values that ``read`` finds under ``keys``, before their write with
    ``version``.
    """
    rows = {}
    for number, chunk in enumerate(in_pieces(keys, KEYS_OF_A_ROW)):
        stored = {key: value for key, value, _ in read(chunk)}
        before = Writes(version, stored, [key for key in chunk if key not in stored])
        rows[layout.undo_row(version, number)] = split_cells(before.to_bytes())
    return rows


def write(gateway: Gateway, composed: dict[bytes, layout.Cells], version: int) -> None:
    """Write rows of the log, in few messages."""
    gateway.put(composed, version)
    failpoint("hbase-undo-logged")


def rows(gateway: Gateway) -> list[bytes]:
    """Return all rows of the log, in the order in which they were written."""
    log_rows: list[bytes] = []
    start, end = _ROWS
    while True:
        page = gateway.scan((start, end), [layout.FAMILY], _ROWS_AT_ONCE, KEYS_ONLY)
        log_rows += [each.row for each in page]
        if len(page) < _ROWS_AT_ONCE:
            return log_rows
        start = page[-1].row + b"\x00"


def remove(gateway: Gateway, version: int) -> None:
    """Forget the log of a transaction that has committed; ``version`` is one of its later versions."""
    logged = rows(gateway)
    if logged:
        gateway.delete(logged, version)


def roll_back(gateway: Gateway, attempted: Sequence[bytes], draw_versions: Callable[[int], int]) -> bool:
    """Restore the values that an uncommitted transaction has overwritten; return whether there was anything
    to restore.

    ``attempted`` are the rows of the log that this process has sent. No late message may take effect, neither
    one with those rows nor the commit.
    """
    logged = rows(gateway)
    if not logged and not attempted:
        return False
    version = draw_versions(len(logged) + 1) - len(logged)
    gateway.delete([layout.WRITES_ROW, *set(attempted).difference(logged)], version)
    for row in reversed(logged):
        version += 1
        _restore(gateway, row, version)
        failpoint("hbase-restored")
        gateway.delete([row], version)
    return True


def _restore(gateway: Gateway, row: bytes, version: int) -> None:
    """Restore the entries of one row in the order that readers rely on: no row ever lacks a posting."""
    logged_row = gateway.rows([row], [layout.FAMILY]).get(row)
    if logged_row is None:
        return
    logged = Writes.from_bytes(join_cells(logged_row.cells))
    before = Writes(version, logged.puts, logged.deletes)
    for kind in _UNDONE:
        put_kind(gateway, before, kind)
    for kind in reversed(_UNDONE):
        delete_kind(gateway, before, kind)
