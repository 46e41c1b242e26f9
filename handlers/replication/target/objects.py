"""The target's form of a source table or partition: functions from struct to struct.

The rules are those of Hive's own REPL LOAD (reference: hive-replication.md §3, §5, §6) and of a real Hive 4
metastore. Ids that only the source can assign are cleared (table id, transaction id). The target chooses the
location of managed tables; locations of external tables are mapped below the policy's base. Everything else
stays unchanged, so that parameters and statistics compare equal on both sides. Only ``translate_plain_table``
queries the target, for its settings.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

import orjson

from handlers.files.paths import parse_location
from handlers.replication.policy.locations import place_below, relocate_partition, relocate_table
from handlers.replication.policy.replicability import is_view, require_plain_files
from handlers.replication.views.definitions import define_view
from handlers.structs.statistics import ColumnStatistics, ColumnStatisticsDesc


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from handlers.metastore.client import Metastore
    from handlers.replication.policy.policy import Policy
    from handlers.structs.objects import Partition, Table
    from handlers.structs.statistics import ColumnStatisticsObj


KEEP_STATISTICS: Final[Mapping[str, str]] = {"DO_NOT_UPDATE_STATS": "true"}
"""Environment of every call that writes parameters; without it, the metastore recomputes or drops statistics
(hive-replication.md §0c.6)."""


ACCURATE: Final = "COLUMN_STATS_ACCURATE"
"""The parameter with the mark of accurate statistics, from which Hive answers queries without reading
rows."""
BASIC: Final = "BASIC_STATS"
"""The name of the basic statistics in that mark."""
STATISTICS: Final = frozenset(
    {"numFiles", "totalSize", "numRows", "rawDataSize", "numFilesErasureCoded", ACCURATE}
)
"""Parameters that hold the basic statistics of a table or partition."""


def list_accurate(parameters: Mapping[str, str] | None) -> frozenset[str]:
    """Return the content of the mark of accurate statistics: ``BASIC`` and columns; empty if there is no
    mark, or if it is not the JSON that Hive writes.
    """
    try:
        mark = orjson.loads((parameters or {}).get(ACCURATE, ""))
    except ValueError:
        return frozenset()
    if not isinstance(mark, dict):
        return frozenset()
    columns = mark.get("COLUMN_STATS")
    named = frozenset(columns) if isinstance(columns, dict) else frozenset()
    return named | {BASIC} if mark.get(BASIC) == "true" else named


def is_transactional(table: Table) -> bool:
    """Whether the table is an ACID or insert-only table."""
    return (table.parameters or {}).get("transactional", "").lower() == "true"


def is_insert_only(table: Table) -> bool:
    """Whether the rows of a transactional table are files without row ids, which are never updated."""
    return (table.parameters or {}).get("transactional_properties", "").lower() == "insert_only"


def replayed_write_id(event_write_id: int | None, table: Table) -> int | None:
    """Return the write id to send with a change of ``table``:
    the event's, and none for a table without transactions.
    """
    return event_write_id if is_transactional(table) and event_write_id else None


def build_statistics(
    policy: Policy, table: str, columns: Sequence[ColumnStatisticsObj], partition_name: str | None = None
) -> ColumnStatistics:
    """Return statistics of a table of the target, or of one of its partitions."""
    description = ColumnStatisticsDesc(
        isTblLevel=partition_name is None,
        dbName=policy.target_db,
        tableName=table,
        partName=partition_name,
    )
    return ColumnStatistics(statsDesc=description, statsObj=list(columns), engine="hive")


def changes_columns(before: Table, after: Table) -> bool:
    """Whether the data columns of two states of a table differ."""
    return before.sd.cols != after.sd.cols


def is_external(table: Table) -> bool:
    """Whether the table's data does not belong to Hive."""
    return table.tableType == "EXTERNAL_TABLE"


def owns_data(table: Table) -> bool:
    """Whether a drop of the table removes its data:
    for managed tables, and for external ones with ``external.table.purge``.

    Hive 4 turns plain managed tables into external ones with this parameter (TRANSLATED_TO_EXTERNAL).
    """
    return (
        not is_external(table) or (table.parameters or {}).get("external.table.purge", "").lower() == "true"
    )


def is_plain_managed(table: Table) -> bool:
    """Whether Hive owns the table's data but has no transactions on it;
    since Hive 4, only if the translation is switched off.
    """
    return table.tableType == "MANAGED_TABLE" and not is_transactional(table)


def translate_plain_table(table: Table, target: Metastore) -> Table:
    """Change a plain managed table of the source into the target's form; return any other table unchanged.

    Hive 4 makes such a table external (TRANSLATED_TO_EXTERNAL, ``MetastoreDefaultTransformer``) and still
    owns its data. Sources of Hive 2.3 and 3.1 have such tables, and so has a Hive 4 whose
    ``metastore.metadata.transformer.class`` is empty. The metastore translates only CREATE_TABLE. An
    ALTER_TABLE with the source's table would make the target's table managed again, so every later request
    contains the translated table. A target that does not translate keeps such tables as they are.
    """
    if is_plain_managed(table) and target.translates_plain_tables():
        table.tableType = "EXTERNAL_TABLE"
        table.parameters = {
            **{k: v for k, v in (table.parameters or {}).items() if not k.startswith("transactional")},
            "EXTERNAL": "TRUE",
            "TRANSLATED_TO_EXTERNAL": "TRUE",
            "external.table.purge": "TRUE",
        }
    return table


def to_target_table(source: Table, policy: Policy, location: str | None) -> Table:
    """Change a copy of a source table into its form on the target,
    at ``location`` (None: the target chooses).
    """
    source.dbName = policy.target_db
    source.catName = None
    source.id = None
    source.txnId = None
    source.colStats = None
    source.privileges = None
    source.accessType = None
    source.requiredReadCapabilities = None
    source.requiredWriteCapabilities = None
    relocate_table(source, location, policy.external_base)
    if not policy.copies_rows((source.tableName or "").lower()):
        _remove_statistics(source)
    return rename_view(source, policy)


def rename_view(table: Table, policy: Policy) -> Table:
    """Change the query of a view, if it is one, into its form on the target."""
    if is_view(table):
        view = define_view(table, policy)
        table.viewOriginalText, table.viewExpandedText = view.original, view.expanded
        table.parameters = dict(view.parameters)
    return table


def to_target_partition(source: Partition, policy: Policy, location: str | None) -> Partition:
    """Change a copy of a source partition into its form on the target,
    at ``location`` (None: the target chooses).
    """
    source.dbName = policy.target_db
    source.catName = None
    source.colStats = None
    source.privileges = None
    relocate_partition(source, location, policy.external_base)
    if policy.copies_rows((source.tableName or "").lower()):
        require_plain_files(source)
    else:
        _remove_statistics(source)
    return source


def _remove_statistics(item: Table | Partition) -> None:
    """Remove the statistics of rows that are not replicated, with the write id that they are valid for."""
    item.parameters = {k: v for k, v in (item.parameters or {}).items() if k not in STATISTICS}
    item.writeId = None


def map_external_location(source_location: str | None, policy: Policy) -> str | None:
    """Map a location of an external table below the policy's base:
    base + path at the source; None if there is no base.

    As in Hive's ReplExternalTables (hive-replication.md §5), the source's scheme and host are dropped:
    ``hdfs://src/abc`` below ``hdfs://dst/r`` becomes ``hdfs://dst/r/abc``. Raises UnsafePath for a location
    that could lead outside the base.
    """
    if policy.external_base is None or source_location is None:
        return None
    return place_below(policy.external_base, source_location)


ELSEWHERE: Final = "_at_"
"""Prefix of the hidden directories, below a table's on the target, of partitions that are outside of the
table's at the source."""


def map_partition_location(
    source: str | None, source_owner: Table | None, name: str, target_owner: Table, policy: Policy
) -> str | None:
    """Return the target's location of a plain partition that the source has at ``source``;
    None if the target chooses.

    With ``external_base``, one of an external table is below the base. Otherwise a partition below its
    table's directory has the same relative path on the target, and any other has a directory named after its
    location: ``TABLE/_at_HASH/PARTITION``. ``source_owner`` is the table at the source, None if it is
    unknown. Raises UnsafePath for a location that could lead elsewhere.
    """
    if source is None or is_transactional(target_owner):
        return None
    is_mapped = is_external(target_owner if source_owner is None else source_owner)
    if is_mapped and (mapped := map_external_location(source, policy)) is not None:
        return mapped
    source_root = None if source_owner is None else source_owner.sd.location
    if source_root is None or target_owner.sd.location is None:
        return None
    at, root = parse_location(source), parse_location(source_root)
    target_root = target_owner.sd.location.rstrip("/")
    if root.contains(at) and root != at:
        return target_root + at.path[len(root.path.rstrip("/")) :]
    return f"{target_root}/{ELSEWHERE}{hash_location(source)}/{name}"


def hash_location(location: str) -> str:
    """Return a short name for a location, which is the same for all notations of the location."""
    return hashlib.sha256(str(parse_location(location)).encode()).hexdigest()[:16]


def format_partition_name(keys: list[str], values: list[str]) -> str:
    """Return Hive's name of a partition, ``k=v/k2=v2``, escaped as by Hive's FileUtils.makePartName."""
    return "/".join(
        f"{escape_path_name(k.lower())}={escape_path_name(v)}" for k, v in zip(keys, values, strict=True)
    )


_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^") | {"\x7f"} | {chr(code) for code in range(32)}
"""Characters that FileUtils.escapePathName writes as ``%XX``: Hive's charToEscape, and ``{`` from its list
for Windows."""


def escape_path_name(text: str) -> str:
    """Escape one path component as Hive's FileUtils.escapePathName;
    an empty one becomes the default partition's name.
    """
    if not text:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def partition_key_names(table: Table) -> list[str]:
    """Return the names of the partition columns, in order."""
    return [column.name or "" for column in table.partitionKeys or []]
