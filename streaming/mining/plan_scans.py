"""Which attributes of a Spark plan are raw JSON columns, as the plan's scans tell.

A table is known by its name, or by its directory where files are read without one. Two forms are read: the formatted mode (the
default of ``spark.sql.ui.explainMode``), in which a scan is a section of its own, and the simple one, in which it is a line of the tree.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Iterator

    from streaming.mining.tables import Tables
    from streaming.mining.values import RawTable


ATTRIBUTE: Final = re.compile(r"([\w`]+)#(\d+)")
"""A column's name and its id, which is unique in the plan."""
_SCAN: Final = re.compile(
    r"^\(\d+\) (?:Batch)?Scan[ \w]*? (?P<table>[\w.`]*)(?: \(\d+\))? *\n(?P<section>(?:[^\n]+\n?)*)",
    re.MULTILINE,
)
_TREE_SCAN: Final = re.compile(
    r"(?:File|Batch)?Scan \w* ?(?P<table>[\w.`]*) ?\[(?P<output>[^\]\n]*)\](?P<section>[^\n]*)"
)
_OUTPUT: Final = re.compile(r"^Output \[\d+\]: \[(.*)\]$", re.MULTILINE)
_LOCATION: Final = re.compile(r"Location: \w+ ?(?:\(\d+ paths\))? ?\[([^\],\s]+)")


def raw_attributes(text: str, tables: Tables) -> dict[str, RawTable]:
    """Return the ids of a plan's raw columns, with their tables."""
    return {
        number: table
        for name, output, section in _scans(text)
        if (table := _table(tables, name, section)) is not None
        for column, number in ATTRIBUTE.findall(output)
        if column.strip("`").lower() == table.json_column
    }


def _scans(text: str) -> Iterator[tuple[str, str, str]]:
    """Give every scan's table, its columns, and all that the plan says of it."""
    for found in _SCAN.finditer(text):
        output = _OUTPUT.search(found["section"])
        yield found["table"], output[1] if output else "", found["section"]
    for found in _TREE_SCAN.finditer(text):
        yield found["table"], found["output"], found["section"]


def _table(tables: Tables, name: str, section: str) -> RawTable | None:
    parts = name.replace("`", "").lower().split(".")
    if len(parts) > 1:
        found = tables.raw(parts[0] if len(parts) > 2 else "", parts[-2], parts[-1])
        if found is not None:
            return found[0]
    place = _LOCATION.search(section)
    return tables.at(place[1]) if place else None
