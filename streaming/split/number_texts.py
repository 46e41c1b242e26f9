"""Numbers in texts, which fit a numeric column only if JSON writes the number like the text."""

from __future__ import annotations

from state.columns.types import DOUBLE_EXACT_MAX, ColumnType


def read_number(text: str, column_type: ColumnType) -> str:
    """Return, as SQL, the number in a text if the text is what JSON and a column of this type write for it; otherwise NULL.

    A DOUBLE also accepts integers.
    """
    typed = f"try_cast({text} AS {column_type.hive})"
    same = f"CAST({typed} AS STRING) = {text}"
    if column_type is ColumnType.DOUBLE:
        integer = f"try_cast({text} AS BIGINT)"
        bounds = f"{integer} BETWEEN -{DOUBLE_EXACT_MAX} AND {DOUBLE_EXACT_MAX}"
        same = f"({same} AND abs({typed}) < double('Infinity')) OR (CAST({integer} AS STRING) = {text} AND {bounds})"
    return f"CASE WHEN {same} THEN {typed} END"
