"""The columns of a file: every slot in the table's order, with names or, while a slot turns into text, without.

Batches and rewritten hours write alike, so that it makes no difference to a reader from which of them a file is.
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
    """Return the slots on their way to STRING: every file is written with their texts, and without names."""
    text = state.parameters.get(PROMOTION)
    return frozenset(json.loads(text)["slots"]) if text else frozenset()


def slot_columns(layout: Layout, textual: frozenset[int]) -> list[str]:
    """Return every slot as a file has it, as SQL over columns of the slots' names.

    A file with slots on their way to STRING names no column: readers then match by position, and Spark pushes no filter into
    it, so it reads right under the old type and under the new one (with names, Spark's reader fails on a pushed filter as
    soon as the file's type and the table's are of two families, reference: spark-4.0.md §2).
    """
    if not textual:
        return [quote(slot.name) for slot in layout.slots]
    return [
        f"{_as_text(quote(slot.name), slot.index, textual)} AS {quote(f'_col{slot.index}')}"
        for slot in layout.slots
    ]


def _as_text(name: str, index: int, textual: frozenset[int]) -> str:
    return f"CAST({name} AS STRING)" if index in textual else name
