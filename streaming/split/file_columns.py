"""The columns of a data file: every slot in the table's order, with names or, during a promotion to STRING, without.

Batches and rewritten hours write the same columns, so readers need not distinguish their files.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from streaming.split.parse_schema import quote
from streaming.table.parameters import PROMOTION


if TYPE_CHECKING:
    from state.columns.slots import Layout
    from streaming.table.flat_table import TableState


def textual_slots(state: TableState) -> frozenset[int]:
    """Return the slots under promotion to STRING: new files hold their values as text, and no column names."""
    text = state.parameters.get(PROMOTION)
    return frozenset(json.loads(text)["slots"]) if text else frozenset()


def slot_columns(layout: Layout, textual: frozenset[int]) -> list[str]:
    """Return every slot as it is written to a file, as SQL over columns that have the slots' names.

    A file with slots under promotion has no column names. Readers then match columns by position, and Spark pushes no filter
    into the file, so it is read correctly under the old type and the new one. With names, Spark's reader fails on a pushed
    filter if the types of file and table belong to different families (reference: spark-4.0.md §2).
    """
    if not textual:
        return [quote(slot.name) for slot in layout.slots]
    return [
        f"{_cast_to_text(quote(slot.name), slot.index, textual)} AS {quote(f'_col{slot.index}')}"
        for slot in layout.slots
    ]


def _cast_to_text(name: str, index: int, textual: frozenset[int]) -> str:
    return f"CAST({name} AS STRING)" if index in textual else name
