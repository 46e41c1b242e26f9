"""Where the rows of a table are at the source: in its location, in the directory that Spark reads, or in both.

Spark reads a table of its data sources (``using parquet``) from the serde parameter ``path`` and ignores the location
(``HiveExternalCatalog.restoreDataSourceTable``). Both are the same directory as a rule. They differ

* for an external table of a format that Hive cannot read (csv, json, text): its location is a placeholder that never exists;
* after Hive has moved or renamed the table, or Spark has renamed one that a metastore of Hive 4 made external. Hive then reads the
  one, and Spark the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.files.paths import parse_location
from handlers.replication.policy.relocation import resolve_location


if TYPE_CHECKING:
    from handlers.files.paths import Location
    from handlers.structs.objects import Table


PROVIDER: Final = "spark.sql.sources.provider"
"""Property of a table of one of Spark's data sources, with the name or the class of the source."""
CREATED_BY_SPARK: Final = "spark.sql.create.version"
"""Property of everything that Spark creates, with its version."""
PLACEHOLDER: Final = "-__PLACEHOLDER__"
"""How the location ends that Spark gives a table if it cannot give it the real one."""


def is_of_spark(table: Table) -> bool:
    """Whether Spark has created a table with rows, of Hive's formats or of its own."""
    parameters = table.parameters or {}
    return table.tableType in {"EXTERNAL_TABLE", "MANAGED_TABLE"} and (
        CREATED_BY_SPARK in parameters or PROVIDER in parameters
    )


def find_spark_path(table: Table) -> Location | None:
    """Return the directory that Spark reads if it is not the table's location; raise UnsafePath."""
    serde = table.sd.serdeInfo
    if serde is None or not serde.parameters or PROVIDER not in (table.parameters or {}):
        return None
    value = next((value for key, value in serde.parameters.items() if key.lower() == "path"), None)
    if value is None:
        return None
    root = None if table.sd.location is None else parse_location(table.sd.location)
    path = resolve_location(value, root)
    return None if path == root else path


def has_placeholder(table: Table) -> bool:
    """Whether Spark gave the table a location without rows."""
    return find_spark_path(table) is not None and (table.sd.location or "").rstrip("/").endswith(PLACEHOLDER)


def list_row_directories(table: Table) -> tuple[str, ...]:
    """Return the directories of a table, without those of its partitions; the first is the one that is there as a rule."""
    path, location = find_spark_path(table), table.sd.location
    if path is None:
        return () if location is None else (location,)
    return (str(path),) if location is None or has_placeholder(table) else (location, str(path))
