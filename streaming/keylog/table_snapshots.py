"""Flat tables as their Spark drivers last saw them, and the history of their columns.

Written by the driver after each batch, read by the daemon's page and by the command line, which know neither Spark nor the
metastore. Writing is idempotent: a replayed batch tells the same version and the same changes; a driver that was overtaken
does not put an older version in place of a newer one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import select

from state.errors import LimitExceeded, StateCorrupt
from streaming.keylog.database import insert_new, upsert
from streaming.keylog.records import make_storable
from streaming.keylog.schema import PATH_CHARS, REASON_CHARS, flat_changes, flat_tables


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlalchemy import Connection

    from streaming.keylog.database import Merge
    from streaming.keylog.log import KeyLog


DOCUMENT_BYTES_MAX: Final = 8 << 20
"""1,500 columns with all their figures are below 1 MB; MySQL takes no packet above 16 MB by default."""


@dataclass(frozen=True, slots=True)
class TableSnapshot:
    """A flat table at one moment."""

    name: str
    """``db.table``."""
    version: int
    """Of its layout."""
    updated_at_s: int
    document: Mapping[str, Any]
    """What the page shows: layout, fill rates, raw and flat bytes, candidates with reasons."""


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """One change of a flat table's columns."""

    version: int
    """Of the layout that it led to."""
    n: int
    """Its place among the changes of that version, from 0."""
    at_s: int
    kind: str
    slot: int | None
    key: str
    """The key's text; empty where none is concerned."""
    reason: str


def save_snapshot(log: KeyLog, table: TableSnapshot, changes: Sequence[ColumnChange] = ()) -> None:
    """Store the table and the changes that are new, both or neither.

    An older version than the stored one changes nothing but the history. Raises LimitExceeded for a document above 8 MiB.
    """
    document = json.dumps(table.document, separators=(",", ":"))
    if len(document) > DOCUMENT_BYTES_MAX:
        raise LimitExceeded(
            "a flat table's snapshot is too large",
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
        insert_new(connection, flat_changes, rows)
        stored = select(flat_tables.c.version).where(flat_tables.c.name == table.name)
        if (connection.scalar(stored.with_for_update()) or 0) <= table.version:
            upsert(connection, flat_tables, [row], newest)

    log.database.write(work)


def read_snapshot(log: KeyLog, name: str) -> TableSnapshot | None:
    """Return the table of that name as it was last seen; None where no driver has told of it."""
    with log.database.read() as connection:
        row = connection.execute(select(flat_tables).where(flat_tables.c.name == name)).mappings().first()
    return None if row is None else _table(row)


def flat_table_names(log: KeyLog) -> list[str]:
    """Return the names of the tables that drivers have told of."""
    with log.database.read() as connection:
        return sorted(connection.scalars(select(flat_tables.c.name)))


def read_changes(
    log: KeyLog, name: str, *, before_version: int | None = None, limit: int = 200
) -> list[ColumnChange]:
    """Return the newest ``limit`` changes of a table, below ``before_version`` where given, the newest first."""
    wanted = select(flat_changes).where(flat_changes.c.flat_table == name)
    if before_version is not None:
        wanted = wanted.where(flat_changes.c.version < before_version)
    newest = wanted.order_by(flat_changes.c.version.desc(), flat_changes.c.n.desc()).limit(limit)
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
        raise StateCorrupt("a flat table's snapshot is no JSON", table=row["name"]) from None
    return TableSnapshot(row["name"], row["version"], row["updated_at"], document)
