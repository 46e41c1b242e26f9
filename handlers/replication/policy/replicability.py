"""Whether a table can be replicated: a decision about its definition alone, with the reason if it cannot.

Some tables of a metastore have their rows elsewhere: in HBase or Kudu, behind JDBC, or in files that only
other files describe, with absolute paths of the source (Iceberg, Delta Lake's shallow clones, symlinks) or in
hidden directories (``_delta_log``, ``.hoodie``). A replica of their definition and visible files would show
nothing, rows of the source cluster, or deleted rows, or would fail at the first read. Tideline omits and
reports such a table, instead of replicating a part of it. If only the metadata is to be replicated
(``metadata_only``), nothing would be missing, so such tables are followed.

For Spark's data sources, a list names those that are plain files: an unknown one may keep its rows anywhere.
For Hive's input formats, a list names those that are not, because companies often have their own classes that
read plain files. docs/REPLICATION.md has a table of all kinds.

The owner of a table can switch off its replication with the property ``tideline.replicate``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from handlers.files.paths import parse_location
from handlers.metastore.calls import V3_1
from handlers.replication.policy.locations import PATHS, PROVIDER, find_spark_path, list_row_directories
from state.errors import UnsafePath, Unsupported


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handlers.files.paths import Location
    from handlers.metastore.calls import HiveVersion
    from handlers.replication.policy.policy import Policy
    from handlers.structs.objects import Partition, SerDeInfo, StorageDescriptor, Table


MATERIALIZED: Final = "MATERIALIZED_VIEW"
VIEW: Final = "VIRTUAL_VIEW"
"""The obstacle of a view depends on its query (``views/obstacles``)."""
HANDLER: Final = "storage_handler"
"""Parameter with the Java class that reads a table's rows, of tables that are not files of a warehouse."""
TABLE_TYPE: Final = "table_type"
METADATA_LOCATION: Final = "metadata_location"

REPLICATE: Final = "tideline.replicate"
"""Property of a table; ``false`` switches its replication off."""

Code = Literal[
    "materialized-view",
    "switched-off",
    "iceberg",
    "delta",
    "hudi",
    "paimon",
    "symlink",
    "storage-handler",
    "spark-provider",
    "spark-path",
    "input-format",
    "view",
]


@dataclass(frozen=True, slots=True)
class Obstacle:
    """Why Tideline does not replicate a table."""

    code: Code
    reason: str


MATERIALIZED_VIEW: Final = Obstacle("materialized-view", "materialized views are not replicated")
ICEBERG_TABLE: Final = Obstacle(
    "iceberg", "Iceberg tables are not replicated: their metadata names files by their paths at the source"
)
DELTA_TABLE: Final = Obstacle(
    "delta",
    "Delta Lake tables are not replicated: the log in _delta_log decides which files readers use",
)
HUDI_TABLE: Final = Obstacle(
    "hudi", "Hudi tables are not replicated: the timeline in .hoodie decides which files readers use"
)
PAIMON_TABLE: Final = Obstacle(
    "paimon", "Paimon tables are not replicated: their snapshots decide which files readers use"
)
SYMLINK_TABLE: Final = Obstacle(
    "symlink", "symlink tables are not replicated: their files name other files by their paths at the source"
)
SWITCHED_OFF: Final = Obstacle("switched-off", f"its property {REPLICATE} is false")
SPARK_PATH: Final = Obstacle(
    "spark-path",
    "Spark reads its rows from a directory other than its location: replicating both requires an external "
    "table and 'external_base'",
)

_LAKE_FORMATS: Final = {
    "iceberg": ICEBERG_TABLE,
    "delta": DELTA_TABLE,
    "hudi": HUDI_TABLE,
    "hoodie": HUDI_TABLE,
    "paimon": PAIMON_TABLE,
}
"""Formats with files that describe the others, by a word in the name of their providers and Java classes."""
_PLAIN_PROVIDER: Final = re.compile(
    r"hive|(?:com\.databricks\.spark\.|org\.apache\.spark\.sql\.(?:hive\.|execution\.datasources\.)?(?:v2\.)?)?"
    r"(?:parquet|orc|csv|json|text|avro|xml)(?:\.defaultsource|\.[a-z]+(?:fileformat|datasourcev2))?"
)
"""Spark's data sources that are plain files, by short name and by all names of their classes
(``DataSource.backwardCompatibilityMap``)."""
_FOREIGN_FORMATS: Final = re.compile(
    r"org\.apache\.(?:carbondata|hudi|iceberg|kudu|paimon|hadoop\.hive\.(?:accumulo|druid|hbase|kafka|kudu))\."
    r"|com\.uber\.hoodie\.|io\.delta\.|org\.apache\.hive\.storage\."
)
"""Input formats whose rows are not, or not only, in the visible files of a directory."""
_SYMLINK: Final = re.compile(r"symlink", re.IGNORECASE)
_FILE_SYSTEM: Final = re.compile(
    r"(?:file|hdfs|webhdfs|viewfs|o3fs|ofs|s3[an]?|gs|abfss?|wasbs?|adl|oss|cosn?|obs):/"
)


def is_view(table: Table) -> bool:
    """Whether the table is a view, with or without materialized data."""
    return table.tableType in {"VIRTUAL_VIEW", "MATERIALIZED_VIEW"}


def find_obstacle(table: Table, policy: Policy | None = None) -> Obstacle | None:
    """Return why ``table`` is not replicated; None if it is.
    Without ``policy``, rows are copied, and there is an ``external_base``.
    """
    if table.tableType == MATERIALIZED:
        return MATERIALIZED_VIEW
    parameters = table.parameters or {}
    if parameters.get(REPLICATE, "").strip().lower() == "false":
        return SWITCHED_OFF
    if policy is not None and not policy.copies_rows((table.tableName or "").lower()):
        return None
    return (
        _find_foreign_rows(parameters)
        or _find_foreign_format(table.sd)
        or _find_foreign_provider(parameters)
        or _find_foreign_paths(table, has_base=policy is None or policy.external_base is not None)
    )


def _find_foreign_rows(parameters: Mapping[str, str]) -> Obstacle | None:
    """Return the obstacle of a table whose rows are not in files of the warehouse; None if they are."""
    handler = parameters.get(HANDLER, "").strip()
    if METADATA_LOCATION in parameters:
        return ICEBERG_TABLE
    format_of_lake = _find_lake_format(parameters.get(TABLE_TYPE, "")) or _find_lake_format(handler)
    if format_of_lake is not None:
        return format_of_lake
    if handler:
        name = handler.rpartition(".")[2]
        return Obstacle("storage-handler", f"the rows are outside of the warehouse, read by {name}")
    return None


def _find_lake_format(name: str) -> Obstacle | None:
    lower = name.lower()
    return next((obstacle for word, obstacle in _LAKE_FORMATS.items() if word in lower), None)


def _find_foreign_provider(parameters: Mapping[str, str]) -> Obstacle | None:
    """Return the obstacle of a table of one of Spark's data sources; None for plain files."""
    provider = parameters.get(PROVIDER, "").strip()
    if not provider or _PLAIN_PROVIDER.fullmatch(provider.lower()):
        return None
    reason = f"the data source {provider} of Spark may have rows outside of the table's files"
    return _find_lake_format(provider) or Obstacle("spark-provider", reason)


def _find_foreign_format(storage: StorageDescriptor | None) -> Obstacle | None:
    """Return the obstacle of an input format, of a table or of one partition; None for plain files."""
    name = "" if storage is None else storage.inputFormat or ""
    if _SYMLINK.search(name):
        return SYMLINK_TABLE
    if not _FOREIGN_FORMATS.match(name):
        return None
    reason = f"the input format {name} reads rows outside of the table's files"
    return _find_lake_format(name) or Obstacle("input-format", reason)


def _find_foreign_paths(table: Table, *, has_base: bool) -> Obstacle | None:
    """Return the obstacle of a table whose readers need a directory that is not replicated."""
    if PROVIDER not in (table.parameters or {}):
        return None
    try:
        if find_spark_path(table) is not None and not (has_base and table.tableType == "EXTERNAL_TABLE"):
            return SPARK_PATH
        roots = [parse_location(each) for each in list_row_directories(table)]
    except UnsafePath:
        return None  # the table's events fail with this reason
    serde = table.sd.serdeInfo
    for key, value in ((serde and serde.parameters) or {}).items():
        if _is_mapped(key, serde) or not _FILE_SYSTEM.match(value):
            continue
        if not _is_below(value, roots):
            reason = f"the option {key} of Spark names {value}, which is outside of the table"
            return Obstacle("spark-path", reason)
    return None


def _is_mapped(key: str, serde: SerDeInfo | None) -> bool:
    """Whether an option names a place of the target after replay:
    Spark's directories, and the schema file of an Avro table.
    """
    is_schema = key.lower().replace(".", "") == "avroschemaurl"
    return key.lower() in PATHS or (
        is_schema and serde is not None and "avro" in (serde.serializationLib or "").lower()
    )


def _is_below(value: str, roots: Sequence[Location]) -> bool:
    try:
        at = parse_location(value)
    except UnsafePath:
        return False
    return any(root.contains(at) for root in roots)


def require_plain_files(partition: Partition) -> None:
    """Raise Unsupported if a partition's rows are not in the visible files of its directory."""
    obstacle = _find_foreign_format(partition.sd)
    if obstacle is not None:
        raise Unsupported(
            f"a partition cannot be replicated: {obstacle.reason}",
            partition=partition.values,
            hint="Exclude the table from the policy, or drop the partition and run 'tideline release "
            "POLICY TABLE'.",
        )


def require_write_ids(table: Table, source_version: HiveVersion) -> None:
    """Raise Unsupported if a table is transactional, and its source has no write ids (before Hive 3.1)."""
    if source_version < V3_1 and (table.parameters or {}).get("transactional", "").lower() == "true":
        raise Unsupported(
            f"Hive {source_version} has no write ids: its transactional tables cannot be replicated",
            table=f"{table.dbName}.{table.tableName}",
            hint="Run a major compaction of the table, upgrade the source to Hive 3.1 or later, and run "
            "'tideline release POLICY TABLE'; or exclude the table from the policy.",
        )


def may_have_obstacle(text: str) -> bool:
    """Return False only if the table with this TJSON text has no obstacle; it costs no decoding."""
    return any(mark in text for mark in _MARKS) or _FORMATS.search(text) is not None


_MARKS: Final = tuple(
    f'"{mark}"' for mark in (MATERIALIZED, VIEW, REPLICATE, HANDLER, TABLE_TYPE, METADATA_LOCATION, PROVIDER)
)
_FORMATS: Final = re.compile(f"{_FOREIGN_FORMATS.pattern}|[Ss]ymlink|SYMLINK")
