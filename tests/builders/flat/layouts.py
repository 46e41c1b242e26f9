"""Layouts and hours of flat tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from state.columns.names import choose_column_name
from state.columns.paths import KeyPath
from state.columns.slots import Layout, Slot, SlotState
from state.columns.types import ColumnType
from streaming.table.compatibility_view import CompatibilityView
from streaming.table.metastore_table import MetastoreTable


HOUR = 1_461_013_200
"""2016-04-18 21:00 UTC."""


def a_layout(columns: Mapping[str, ColumnType], *, version: int = 1) -> Layout:
    """Return a layout with a live slot for every dotted key, in order."""
    return with_keys(replace(Layout.new(), version=version), columns)


def with_keys(layout: Layout, columns: Mapping[str, ColumnType]) -> Layout:
    """Return the layout with more slots appended, at the same version."""
    for text, kind in columns.items():
        key = KeyPath.of_dotted(text)
        layout = layout.with_slot(Slot(len(layout.slots), choose_column_name(key, layout.names), key, kind))
    return layout


def next_version(layout: Layout) -> Layout:
    """The same slots with the next version."""
    return replace(layout, version=layout.version + 1)


def retyped(layout: Layout, index: int, kind: ColumnType) -> Layout:
    """Return the layout with the type of one slot changed."""
    return layout.with_slot(replace(layout.slots[index], type=kind))


def rekeyed(layout: Layout, index: int, text: str, kind: ColumnType | None = None) -> Layout:
    """Return the layout with one slot assigned to another key."""
    old, key = layout.slots[index], KeyPath.of_dotted(text)
    return layout.with_slot(
        Slot(
            index,
            choose_column_name(key, layout.names),
            key,
            kind or old.type,
            state=SlotState.LIVE,
            former_name=old.name,
        )
    )


def compatibility_view(table: MetastoreTable, name: str) -> CompatibilityView:
    """Return the view ``name`` of the table."""
    return CompatibilityView(table._catalog, table.database, table.name, name)
