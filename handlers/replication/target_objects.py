"""What an object of the source has to look like on the target: pure functions from struct to struct.

The rules come from Hive's own REPL LOAD (reference: hive-replication.md §3, §5, §6) and from what a real Hive 4 metastore
accepts: identifiers that only the source can give out (table id, transaction id) are cleared, places are chosen by the target
for managed tables and mapped below the policy's base for external ones, and everything else stays as it was, so that
parameters and statistics compare equal on both sides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from handlers.structs.objects import Database, Partition, Table


if TYPE_CHECKING:
    from collections.abc import Mapping

    from handlers.replication.policy import Policy


REPL_PARAMETER_PREFIX: Final = "repl."
HIVE_REPL_PREFIX: Final = "hive.repl."
LAST_ID: Final = "repl.last.id"
TARGET_FOR: Final = "repl.target.for"
INCOMPATIBLE: Final = "repl.incompatible"
KEEP_STATISTICS: Final[Mapping[str, str]] = {"DO_NOT_UPDATE_STATS": "true"}
"""Environment of every call that writes parameters: else the metastore recomputes or drops statistics (§0c.6)."""


def is_transactional(table: Table) -> bool:
    """Whether the table is an ACID or insert-only table."""
    return (table.parameters or {}).get("transactional", "").lower() == "true"


def is_external(table: Table) -> bool:
    """Whether Hive does not own the table's data."""
    return table.tableType == "EXTERNAL_TABLE"


def owns_data(table: Table) -> bool:
    """Whether dropping the table drops its data: a managed one's, and an external one's that asks for it.

    Hive 4 turns plain managed tables into external ones with ``external.table.purge`` (TRANSLATED_TO_EXTERNAL).
    """
    return (
        not is_external(table) or (table.parameters or {}).get("external.table.purge", "").lower() == "true"
    )


def is_view(table: Table) -> bool:
    """Whether the table has no data of its own."""
    return table.tableType in {"VIRTUAL_VIEW", "MATERIALIZED_VIEW"}


def to_target_database(source: Database, policy: Policy) -> Database:
    """Return the target's database for a source database that is created; the target chooses its place."""
    return Database(
        name=policy.target_db,
        description=source.description,
        parameters={**select_own_parameters(source), TARGET_FOR: "true"},
        ownerName=source.ownerName,
        ownerType=source.ownerType,
    )


def apply_database_changes(source: Database, target: Database) -> Database:
    """Return ``target`` with description, owner and own parameters of ``source``; its place and ``repl.*`` parameters stay."""
    kept = {k: v for k, v in (target.parameters or {}).items() if is_replication_parameter(k)}
    target.parameters = {**select_own_parameters(source), **kept}
    target.description = source.description
    target.ownerName = source.ownerName
    target.ownerType = source.ownerType
    return target


def select_own_parameters(database: Database) -> dict[str, str]:
    """Return the parameters that say something about the data, not about a replication."""
    return {k: v for k, v in (database.parameters or {}).items() if not is_replication_parameter(k)}


def is_replication_parameter(key: str) -> bool:
    """Whether a database parameter belongs to a replication and must not travel."""
    return key.startswith((REPL_PARAMETER_PREFIX, HIVE_REPL_PREFIX))


def to_target_table(source: Table, policy: Policy, location: str | None) -> Table:
    """Turn a source table (a copy that may be changed) into what the target gets, at ``location`` (None: its choice)."""
    source.dbName = policy.target_db
    source.catName = None
    source.id = None
    source.txnId = None
    source.colStats = None
    source.privileges = None
    source.accessType = None
    source.requiredReadCapabilities = None
    source.requiredWriteCapabilities = None
    if source.sd is not None:
        source.sd.location = location
    if is_view(source):
        source.viewExpandedText = rewrite_view_text(source.viewExpandedText, policy)
        source.viewOriginalText = rewrite_view_text(source.viewOriginalText, policy)
    return source


def rewrite_view_text(text: str | None, policy: Policy) -> str | None:
    """Return a view's text with the source database's name, where it stands quoted as Hive expands it, replaced."""
    if text is None or policy.source_db == policy.target_db:
        return text
    return text.replace(f"`{policy.source_db}`.", f"`{policy.target_db}`.")


def to_target_partition(source: Partition, policy: Policy, location: str | None) -> Partition:
    """Turn a source partition (a copy that may be changed) into what the target gets, at ``location`` (None: its choice)."""
    source.dbName = policy.target_db
    source.catName = None
    source.colStats = None
    source.privileges = None
    if source.sd is not None:
        source.sd.location = location
    return source


def map_external_location(source_location: str | None, policy: Policy) -> str | None:
    """Map an external place below the policy's base: base + path at the source; None where there is no base.

    Rule of ReplExternalTables (§5): the source's scheme and host are dropped, so ``hdfs://src/abc`` below ``hdfs://dst/r``
    becomes ``hdfs://dst/r/abc``.
    """
    if policy.external_base is None or source_location is None:
        return None
    return policy.external_base.rstrip("/") + "/" + urlsplit(source_location).path.strip("/")


def partition_name(keys: list[str], values: list[str]) -> str:
    """Return Hive's name of a partition, ``k=v/k2=v2``, escaped as Hive's FileUtils.makePartName does."""
    return "/".join(
        f"{escape_path_name(k.lower())}={escape_path_name(v)}" for k, v in zip(keys, values, strict=True)
    )


_ESCAPED: Final = frozenset("\"#%'*/:=?\\{[]^") | {"\x7f"} | {chr(code) for code in range(32)}
"""Characters that FileUtils.escapePathName writes as ``%XX`` (Hive's charToEscape, with ``{`` as on its Windows list)."""


def escape_path_name(text: str) -> str:
    """Escape one path component as Hive's FileUtils.escapePathName; an empty one is the default partition's name."""
    if not text:
        return "__HIVE_DEFAULT_PARTITION__"
    return "".join(f"%{ord(char):02X}" if char in _ESCAPED else char for char in text)


def partition_key_names(table: Table) -> list[str]:
    """Return the names of the partition columns, in order."""
    return [column.name or "" for column in table.partitionKeys or []]
