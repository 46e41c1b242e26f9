"""The way back after a failover: a bootstrap into the old source, which compares files instead of copying
them.

The bootstrap drops the tables of the target database without their files, and the loads create them again in
the same directories. A load copies only files that differ, and removes others that are not part of the table
(``table.copies``). Data of the old source alone is lost, so this happens only on request.

Hive keeps the write ids of a table that was dropped without its files, so a load could not set them. Hive
forgets them when a table is dropped with its files. This step therefore creates an empty table of the same
name in a separate directory, and drops it.

The bootstrap also removes tables and partitions that the source does not have, and directories that belong to
no table of the source. If the source drops a partition between this step and the load of its table, the load
removes the partition (``remove_other_directories``).
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Final

from handlers.files.filesystems import FileSystems
from handlers.files.paths import parse_location
from handlers.files.table_listing import TableDirectory
from handlers.metastore.client import Metastore
from handlers.replication.effects.databases import SOURCE_FOR
from handlers.replication.policy.policy import Policy
from handlers.replication.policy.replicability import is_view
from handlers.replication.target.fencing import EPOCH
from handlers.replication.target.objects import (
    is_external,
    is_transactional,
    owns_data,
    partition_key_names,
    translate_plain_table,
)
from handlers.replication.target.target_position import LAST_ID
from handlers.structs.objects import Database, FieldSchema, SerDeInfo, StorageDescriptor, Table
from state.errors import NotFound, TargetDiverged
from state.pieces import in_pieces


_AT_ONCE: Final = 100


def detach_tables(
    *, source: Metastore, target: Metastore, policy: Policy, database: Database, names: Collection[str]
) -> None:
    """Drop the tables of the target database, and keep the files of those that the source has (``names``);
    repeatable.

    Raises TargetDiverged if the database is a replica, or the source of one: other readers would mistake the
    drops for those of the source.
    """
    _require_unused(database, policy)
    tables = target.table_names(policy.target_db)
    kept_locations: dict[str, str] = {}
    for views in (True, False):
        for name in tables:
            with suppress(NotFound):
                table = target.get_table(policy.target_db, name)
                if is_view(table) == views and _detach(table, source, target, policy, in_scope=name in names):
                    kept_locations[name] = table.sd.location or ""
    for name in names:
        if target.highest_write_id(policy.target_db, name):
            forget_write_ids(name, kept_locations.get(name), target, policy)


def _require_unused(database: Database, policy: Policy) -> None:
    parameters = database.parameters or {}
    used = [key for key in (LAST_ID, EPOCH, SOURCE_FOR) if parameters.get(key, "").strip()]
    if used:
        raise TargetDiverged(
            "the target database is used by replication",
            database=policy.target_db,
            parameters={key: parameters[key] for key in used},
            hint="End its policies first: repeat 'tideline promote POLICY' for the one that was promoted, "
            "so that the database is no longer marked as its source, or run 'tideline retire POLICY'.",
        )


def _detach(table: Table, source: Metastore, target: Metastore, policy: Policy, *, in_scope: bool) -> bool:
    """Drop a table; return whether its files stay, because the source's table will use the same directory."""
    name = table.tableName or ""
    keeps = in_scope and owns_data(table) and _is_reusable(table, source, target, policy)
    if keeps and table.partitionKeys:
        _drop_other_partitions(name, source, target, policy)
    target.drop_table(policy.target_db, name, delete_data=owns_data(table) and not keeps)
    return keeps


def forget_write_ids(name: str, location: str | None, target: Metastore, policy: Policy) -> None:
    """Make Hive forget the write ids of a table that does not exist; the files at ``location`` stay.

    If the location is unknown, as after a crash, this removes the files in the default directory of the
    table.
    """
    aside = (
        None if location is None else str(parse_location(location).parent.child(f"tideline-detached-{name}"))
    )
    empty = Table(
        tableName=name,
        dbName=policy.target_db,
        sd=StorageDescriptor(
            cols=[FieldSchema(name="id", type="int")],
            location=aside,
            inputFormat="org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
            outputFormat="org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
            serdeInfo=SerDeInfo(serializationLib="org.apache.hadoop.hive.ql.io.orc.OrcSerde", parameters={}),
            numBuckets=-1,
            bucketCols=[],
            sortCols=[],
            parameters={},
        ),
        partitionKeys=[],
        parameters={"transactional": "true", "transactional_properties": "default"},
        tableType="MANAGED_TABLE",
    )
    target.create_table(empty)
    target.drop_table(policy.target_db, name, delete_data=True)


def _is_reusable(table: Table, source: Metastore, target: Metastore, policy: Policy) -> bool:
    """Whether the source's table is of the same kind, and the target's table is in the directory of its
    name.
    """
    if table.sd.location is None or parse_location(table.sd.location).name != table.tableName:
        return False
    try:
        other = source.get_table(policy.source_db, table.tableName or "")
    except NotFound:
        return False
    return is_same_kind(table, other, target)


def is_same_kind(table: Table, source: Table, target: Metastore) -> bool:
    """Whether the target's table is of the kind that the source's table would have on the target."""
    return _kind(table) == _kind(translate_plain_table(source.copy(), target))


def _kind(table: Table) -> tuple[object, ...]:
    return (is_transactional(table), is_external(table), table.tableType, tuple(partition_key_names(table)))


def _drop_other_partitions(name: str, source: Metastore, target: Metastore, policy: Policy) -> None:
    source_names = set(source.partition_names(policy.source_db, name))
    others = [each for each in target.partition_names(policy.target_db, name) if each not in source_names]
    for page in in_pieces(others, _AT_ONCE):
        target.drop_partitions(policy.target_db, name, page, delete_data=True, if_exists=True)


def has_directories(files: FileSystems, location: str | None) -> bool:
    """Whether there are directories at the location of a table."""
    return location is not None and bool(TableDirectory(files, location).directories)


def remove_other_directories(files: FileSystems, location: str, partitions: AbstractSet[str]) -> None:
    """Remove the directories below a partitioned table that
    belong to none of its ``partitions`` (``k=v/k2=v2``).
    """
    above = {
        "/".join(name.split("/")[:-depth]) for name in partitions for depth in range(1, name.count("/") + 1)
    }
    _remove_below(files, location, "", partitions, above)


def _remove_below(
    files: FileSystems, root: str, path: str, partitions: AbstractSet[str], above: Collection[str]
) -> None:
    directory = parse_location(root).join(path) if path else parse_location(root)
    for name in TableDirectory(files, str(directory)).directories:
        below = f"{path}/{name}" if path else name
        if below in above:
            _remove_below(files, root, below, partitions, above)
        elif below not in partitions:
            place = directory.child(name)
            with suppress(NotFound):
                files.of(place).remove_tree(place)
