"""The columns of a data file: every slot in the table's order, under its name.

Slots under promotion to STRING already hold text. Batches and rewritten hours have the same columns, so files
of both are alike for a reader. Tideline's own writer writes the rows if the session has it
(``streaming.split.plain_rows``), otherwise Spark's. The files are equal, except for the bounds of texts and
zeros, which only Tideline's writer computes correctly for every reader's order (``java/Bounds``).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from state.columns.types import ColumnType
from streaming.split.parse_schema import quote
from streaming.split.plain_rows import FORMAT, is_available
from streaming.split.split_plan import SLOTS
from streaming.split.splitter import pack, unpack
from streaming.table.parameters import NARROWING, PROMOTED, PROMOTION


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from state.columns.slots import Layout
    from streaming.table.flat_table import TableState


def promoting_slots(state: TableState) -> frozenset[int]:
    """Return the slots under promotion: still numeric in the table, but text in new files."""
    return _slots(state, PROMOTION)


def narrowing_types(state: TableState) -> dict[int, ColumnType]:
    """Return the slots being narrowed, with their future types; their type in the table is still STRING."""
    text = state.parameters.get(NARROWING)
    types: dict[str, str] = json.loads(text)["types"] if text else {}
    return {int(slot): ColumnType[name.upper()] for slot, name in types.items()}


def textual_slots(state: TableState) -> frozenset[int]:
    """Return the slots that new files contain as text, marked so that Spark does not filter by it
    (``streaming.split.pushdown_guard``).

    These are the slots whose type is changing between STRING and a number, or changed recently, because
    queries planned with the old type may still run.
    """
    return promoting_slots(state) | narrowing_types(state).keys() | _slots(state, PROMOTED)


def slot_columns(layout: Layout, textual: frozenset[int]) -> list[str]:
    """Return the SQL of every slot, from columns with the slots' names."""
    return [
        f"CAST({quote(slot.name)} AS STRING) AS {quote(slot.name)}"
        if slot.index in textual
        else quote(slot.name)
        for slot in layout.slots
    ]


def write_files(  # noqa: PLR0913 - a file has that many sides
    rows: DataFrame,
    layout: Layout,
    directory: str,
    *,
    options: Mapping[str, str],
    textual: frozenset[int] = frozenset(),
    by: Sequence[str] = (),
) -> None:
    """Write the slots of split rows (``split_packed``) to ORC files, one directory for each value of the
    columns ``by``.
    """
    if textual or not is_available(rows.sparkSession):
        rows = rows.selectExpr(*unpack(layout), *by).selectExpr(*slot_columns(layout, textual), *by)
        write_columns(rows, layout, directory, options=options, by=by)
    else:
        _save(rows.selectExpr(SLOTS, *by), FORMAT, directory, options, by)


def write_columns(
    rows: DataFrame, layout: Layout, directory: str, *, options: Mapping[str, str], by: Sequence[str] = ()
) -> None:
    """Write rows that have the slots as columns, in the same way as ``write_files``."""
    if is_available(rows.sparkSession):
        _save(rows.selectExpr(pack(layout), *by), FORMAT, directory, options, by)
    else:
        _save(rows, "orc", directory, options, by)


def _save(rows: DataFrame, form: str, directory: str, options: Mapping[str, str], by: Sequence[str]) -> None:
    rows.write.mode("overwrite").options(**options).partitionBy(*by).format(form).save(directory)


def _slots(state: TableState, parameter: str) -> frozenset[int]:
    text = state.parameters.get(parameter)
    return frozenset(json.loads(text)["slots"]) if text else frozenset()
