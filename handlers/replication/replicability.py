"""Whether a table can be replicated: a decision about its definition alone, with the reason if it cannot.

Some tables of a metastore have their rows elsewhere: in HBase or Kudu, behind JDBC, or in files that only the metadata of
Iceberg describes, with absolute paths of the source. A replica of their definition would show nothing, or rows of the source
cluster, or break at the first read. Such a table is left out and reported, instead of being replicated partially. If only the
metadata is to be replicated (``metadata_only``), nothing would be missing, so such tables are followed.

The owner of a table can switch its replication off by the property ``tideline.replicate``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.structs.objects import Table


MATERIALIZED: Final = "MATERIALIZED_VIEW"
VIEW: Final = "VIRTUAL_VIEW"
"""The obstacle of a view depends on its query (``views/obstacles``)."""
HANDLER: Final = "storage_handler"
"""Parameter with the Java class that reads a table's rows, of tables that are not files of a warehouse."""
TABLE_TYPE: Final = "table_type"
METADATA_LOCATION: Final = "metadata_location"
ICEBERG: Final = "iceberg"

REPLICATE: Final = "tideline.replicate"
"""Property of a table; ``false`` switches its replication off."""

Code = Literal["materialized-view", "switched-off", "iceberg", "storage-handler", "view"]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why a table is not replicated."""

    code: Code
    reason: str


MATERIALIZED_VIEW: Final = Obstacle("materialized-view", "materialized views are not replicated")
ICEBERG_TABLE: Final = Obstacle(
    "iceberg", "Iceberg tables are not replicated: their metadata names files by their paths at the source"
)
SWITCHED_OFF: Final = Obstacle("switched-off", f"its property {REPLICATE} is false")


def find_obstacle(table: Table, *, copies_rows: bool = True) -> Obstacle | None:
    """Return why ``table`` is not replicated; None if it is. ``copies_rows`` is False if only its metadata is to be replicated."""
    if table.tableType == MATERIALIZED:
        return MATERIALIZED_VIEW
    parameters = table.parameters or {}
    if parameters.get(REPLICATE, "").strip().lower() == "false":
        return SWITCHED_OFF
    return _find_foreign_rows(parameters) if copies_rows else None


def _find_foreign_rows(parameters: Mapping[str, str]) -> Obstacle | None:
    """Return what reads the rows of a table that are not in files of the warehouse."""
    handler = parameters.get(HANDLER, "").strip()
    if (
        parameters.get(TABLE_TYPE, "").lower() == ICEBERG
        or METADATA_LOCATION in parameters
        or ICEBERG in handler.lower()
    ):
        return ICEBERG_TABLE
    if handler:
        name = handler.rpartition(".")[2]
        return Obstacle("storage-handler", f"the rows are outside of the warehouse, read by {name}")
    return None


def may_have_obstacle(text: str) -> bool:
    """Return False only if the table with this TJSON text has no obstacle; it costs no decoding."""
    return any(mark in text for mark in _MARKS)


_MARKS: Final = tuple(
    f'"{mark}"' for mark in (MATERIALIZED, VIEW, REPLICATE, HANDLER, TABLE_TYPE, METADATA_LOCATION)
)
