"""Texts of the commands of replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from daemon.terminal.layout import bytes_text, number_text, table_text


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.replication.loading.bootstrap_plan import PlannedTable


def plan_text(tables: Sequence[PlannedTable]) -> str:
    """Return a row for each table that a bootstrap would load, and the sums."""
    if not tables:
        return "there is nothing to load"
    header = ("TABLE", "KIND", "PARTITIONS", "FILES", "BYTES", "OPEN TRANSACTIONS")
    rows = [
        (
            table.table,
            table.kind if table.reason is None else f"{table.kind} ({table.reason})",
            number_text(table.partitions),
            number_text(table.files),
            bytes_text(table.size_bytes),
            ", ".join(map(str, table.open_transactions)) or "-",
        )
        for table in tables
    ]
    files, size_bytes = sum(table.files for table in tables), sum(table.size_bytes for table in tables)
    sums = f"{number_text(len(tables))} tables, {number_text(files)} files, {bytes_text(size_bytes)}"
    waits = len({txn_id for table in tables for txn_id in table.open_transactions})
    tail = f"; the bootstrap would wait for {number_text(waits)} open transactions" if waits else ""
    return f"{table_text(header, rows)}\n{sums}{tail}"
