"""Snapshots of flat tables, and the history of their columns.

A table's Spark driver writes a snapshot after each batch. The status page and the command line read it, so
they need neither Spark nor the metastore. Writing is idempotent: a repeated batch writes the same version and
the same changes. A slow driver does not replace a newer version with an older one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Connection, select

from state.errors import LimitExceeded, StateCorrupt
from streaming.keylog.database import Merge, insert_new, upsert
from streaming.keylog.log import KeyLog
from streaming.keylog.records import make_storable
from streaming.keylog.schema import PATH_CHARS, REASON_CHARS, change_table, snapshot_table


DOCUMENT_BYTES_MAX: Final = 8 << 20
"""1,500 columns with all their figures take less than 1 MB; MySQL accepts no packet above 16 MB by
default."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """The state of a flat table at one moment."""

    name: str
    """``db.table``."""
    version: int
    """The version of its layout."""
    updated_at_s: int
    document: Mapping[str, Any]
    """The contents of the status page: layout, fill rates, raw and flat bytes, candidates with reasons."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of a flat table's columns."""

    version: int
    """The version of the resulting layout."""
    n: int
    """The index among the changes of that version, from 0."""
    at_s: int
    kind: str
    slot: int | None
    key: str
    """The text of the key; empty if the change concerns no key."""
    reason: str


def save_snapshot(log: KeyLog, table: TableSnapshot, changes: Sequence[ColumnChange] = ()) -> None:
    """Store the snapshot and the new changes, in one transaction.

    A version older than the stored one only adds to the history. Raises LimitExceeded for a document above 8
    MiB.
    """
    document = json.dumps(table.document, separators=(",", ":"))
    if len(document) > DOCUMENT_BYTES_MAX:
        raise LimitExceeded(
            "the snapshot of a flat table is too large",
            table=table.name,
            bytes=len(document),
            limit=DOCUMENT_BYTES_MAX,
        )
    row = {
        "name": table.name,
        "version": table.version,
        "updated_at": table.updated_at_s,
        "document": document,
    }
    newest: dict[str, Merge] = dict.fromkeys(("version", "updated_at", "document"), _newer)
    rows = [
        _change_row(table.name, change)
        for change in sorted(changes, key=lambda change: (change.version, change.n))
    ]

    def work(connection: Connection) -> None:
        insert_new(connection, change_table, rows)
        stored = select(snapshot_table.c.version).where(snapshot_table.c.name == table.name)
        if (connection.scalar(stored.with_for_update()) or 0) <= table.version:
            upsert(connection, snapshot_table, [row], newest)

    log.database.write(work)


def read_snapshot(log: KeyLog, name: str) -> TableSnapshot | None:
    """Return the last snapshot of a table; None if no driver has written one."""
    with log.database.read() as connection:
        row = (
            connection.execute(select(snapshot_table).where(snapshot_table.c.name == name)).mappings().first()
        )
    return None if row is None else _table(row)


def read_changes(log: KeyLog, name: str, *, limit: int = 200) -> list[ColumnChange]:
    """Return the newest ``limit`` changes of a table, the newest first."""
    query = select(change_table).where(change_table.c.flat_table == name)
    newest = query.order_by(change_table.c.version.desc(), change_table.c.n.desc()).limit(limit)
    with log.database.read() as connection:
        return [_change(row) for row in connection.execute(newest).mappings()]


def _newer(_old: Any, new: Any) -> Any:
    return new


def _change_row(name: str, change: ColumnChange) -> dict[str, Any]:
    return {
        "flat_table": name,
        "version": change.version,
        "n": change.n,
        "at": change.at_s,
        "kind": change.kind,
        "slot": change.slot,
        "path": make_storable(change.key, PATH_CHARS),
        "reason": make_storable(change.reason, REASON_CHARS),
    }


def _change(row: Mapping[Any, Any]) -> ColumnChange:
    return ColumnChange(
        row["version"], row["n"], row["at"], row["kind"], row["slot"], row["path"], row["reason"]
    )


def _table(row: Mapping[Any, Any]) -> TableSnapshot:
    try:
        document = json.loads(row["document"])
    except ValueError:
        raise StateCorrupt("the snapshot of a flat table is not valid JSON", table=row["name"]) from None
    return TableSnapshot(row["name"], row["version"], row["updated_at"], document)
