"""Builds events of databases, tables, partitions, statistics, constraints and functions.

Field names are those of ``org.apache.hadoop.hive.metastore.messaging.json.JSON*Message`` (reference:
hive-replication.md §1.2). Embedded objects are Thrift's JSON protocol of the bare struct (reference:
hive-replication.md §1.3). They stay text (``Embedded``): an event is built without decoding them, and only
their presence and number are checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from handlers.decoding.embedded_objects import PartitionOutline, to_stored_type
from handlers.decoding.fields import Fields, fill_names, parse_plain_source_files, parse_source_files
from handlers.events import (
    ConstraintDropped,
    ConstraintsAdded,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Embedded,
    FunctionCreated,
    FunctionDropped,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    SourceFile,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.structs import tjson
from handlers.structs.constraints import SQLForeignKey
from handlers.structs.objects import Database, Function, Partition, Table
from handlers.structs.statistics import ColumnStatistics
from state.errors import LimitExceeded, MalformedEvent


_DATABASE: Final = partial(tjson.decode, Database)
_PARTITION: Final = (partial(tjson.decode, Partition), partial(tjson.decode, PartitionOutline))
_STATISTICS: Final = partial(tjson.decode, ColumnStatistics)
_FUNCTION: Final = partial(tjson.decode, Function)


def _decode_table(text: str) -> Table:
    return to_stored_type(tjson.decode(Table, text))


def read_database(message: Fields, name: str) -> Embedded[Database]:
    """Return the database in field ``name``; raise MalformedEvent if it is missing."""
    return Embedded(message.required_text(name), _DATABASE)


def read_optional_database(message: Fields, name: str) -> Embedded[Database] | None:
    """Return the database in field ``name``, or None if it is missing."""
    text = message.text(name)
    return Embedded(text, _DATABASE) if text else None


def read_table(message: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent if it is missing."""
    return Embedded(message.required_text(name), _decode_table)


def _read_owner(message: Fields) -> Embedded[Table] | None:
    """Return the table of an event about its partitions, or None if it is missing."""
    text = message.text("tableObjJson")
    return Embedded(text, _decode_table) if text else None


def read_partition(message: Fields, name: str) -> Embedded[Partition]:
    """Return the partition in field ``name``; raise MalformedEvent if it is missing."""
    return Embedded(message.required_text(name), *_PARTITION)


def read_optional_partition(message: Fields, name: str) -> Embedded[Partition] | None:
    """Return the partition in field ``name``, or None if it is missing."""
    text = message.text(name)
    return Embedded(text, *_PARTITION) if text else None


def read_partitions(message: Fields, name: str) -> tuple[Embedded[Partition], ...]:
    """Return the list of partitions in field ``name``."""
    return tuple(Embedded(text, *_PARTITION) for text in message.texts(name, "partitions"))


def read_statistics(message: Fields, name: str) -> Embedded[ColumnStatistics]:
    """Return the column statistics in field ``name``; raise MalformedEvent if they are missing."""
    return Embedded(message.required_text(name), _STATISTICS)


_CONSTRAINT_LISTS: Final[Mapping[str, str]] = {
    "ADD_PRIMARYKEY": "primaryKeyListJson",
    "ADD_FOREIGNKEY": "foreignKeyListJson",
    "ADD_UNIQUECONSTRAINT": "uniqueConstraintListJson",
    "ADD_NOTNULLCONSTRAINT": "notNullConstraintListJson",
    "ADD_DEFAULTCONSTRAINT": "defaultConstraintListJson",
    "ADD_CHECKCONSTRAINT": "checkConstraintListJson",
}
CONSTRAINT_KINDS: Final = frozenset(_CONSTRAINT_LISTS)

_Common = dict[str, Any]


def build_database_created(common: _Common, message: Fields) -> DatabaseCreated:
    """CREATE_DATABASE; Hive 2.3 does not send the object."""
    return DatabaseCreated(
        **fill_names(common, message, "db"), database=read_optional_database(message, "dbJson")
    )


def build_database_altered(common: _Common, message: Fields) -> DatabaseAltered:
    """ALTER_DATABASE."""
    before, after = read_database(message, "dbObjBeforeJson"), read_database(message, "dbObjAfterJson")
    return DatabaseAltered(**fill_names(common, message, "db"), before=before, after=after)


def build_database_dropped(common: _Common, message: Fields) -> DatabaseDropped:
    """DROP_DATABASE."""
    return DatabaseDropped(**fill_names(common, message, "db"))


def build_table_created(common: _Common, message: Fields) -> TableCreated:
    """CREATE_TABLE."""
    after = read_table(message, "tableObjJson")
    return TableCreated(
        **fill_names(common, message, "db", "table"), after=after, files=_files(message, message)
    )


def build_table_altered(common: _Common, message: Fields) -> TableAltered:
    """ALTER_TABLE."""
    return TableAltered(
        **fill_names(common, message, "db", "table"),
        before=read_table(message, "tableObjBeforeJson"),
        after=read_table(message, "tableObjAfterJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def build_table_dropped(common: _Common, message: Fields) -> TableDropped:
    """DROP_TABLE; Hive 2.3 does not send the object."""
    before = _read_owner(message)
    return TableDropped(**fill_names(common, message, "db", "table"), before=before)


def build_partitions_added(common: _Common, message: Fields) -> PartitionsAdded:
    """ADD_PARTITION; without its list the added partitions are unknown."""
    message.require("partitionListJson")
    return PartitionsAdded(
        **fill_names(common, message, "db", "table"),
        owner=_read_owner(message),
        partitions=read_partitions(message, "partitionListJson"),
        files=_files_by_partition(message),
    )


def build_partitions_altered(common: _Common, message: Fields) -> PartitionsAltered:
    """ALTER_PARTITIONS (4.1 and later): the partitions after the change only."""
    return PartitionsAltered(
        **fill_names(common, message, "db", "table"),
        owner=_read_owner(message),
        after=read_partitions(message, "partitionListJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def build_partition_altered(common: _Common, message: Fields) -> PartitionsAltered:
    """ALTER_PARTITION: one partition, before and after."""
    return PartitionsAltered(
        **fill_names(common, message, "db", "table"),
        owner=_read_owner(message),
        after=(read_partition(message, "partitionObjAfterJson"),),
        before=read_partition(message, "partitionObjBeforeJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def build_partitions_dropped(common: _Common, message: Fields) -> PartitionsDropped:
    """DROP_PARTITION; without its list the dropped partitions are unknown."""
    message.require("partitions")
    owner = _read_owner(message)
    specs = message.specs("partitions")
    return PartitionsDropped(**fill_names(common, message, "db", "table"), owner=owner, specs=specs)


def build_inserted(common: _Common, message: Fields) -> Inserted:
    """INSERT; Hive 2.3 names the partition by its values (``partKeyVals``,
    empty without one), later versions send the object.
    """
    return Inserted(
        **fill_names(common, message, "db", "table"),
        owner=_read_owner(message),
        partition=read_optional_partition(message, "ptnObjJson"),
        spec=message.spec("partKeyVals") if message.raw.get("partKeyVals") else None,
        replace=message.flag("replace"),
        files=_files(message, message),
    )


def build_statistics_updated(common: _Common, message: Fields) -> StatisticsUpdated:
    """UPDATE_TBL_COL_STAT_EVENT and UPDATE_PART_COL_STAT_EVENT."""
    return StatisticsUpdated(
        **fill_names(common, message, "database"),
        owner=_read_owner(message),
        statistics=read_statistics(message, "colStatsJson"),
        write_id=message.write_id(),
        parameters=_parameters(message),
    )


def build_statistics_deleted(common: _Common, message: Fields) -> StatisticsDeleted:
    """DELETE_TBL_COL_STAT_EVENT and DELETE_PART_COL_STAT_EVENT."""
    return StatisticsDeleted(
        **fill_names(common, message, "database"),
        column=message.name("colName"),
        partition_name=message.text("partName"),
    )


def build_constraints_added(common: _Common, message: Fields) -> ConstraintsAdded:
    """ADD_PRIMARYKEY and the other constraint events; the table's name is only in the notification and in
    the constraints.
    """
    texts = message.texts(_CONSTRAINT_LISTS[common["kind"]], "partitions")
    return ConstraintsAdded(**common, texts=texts)


def build_foreign_keys_added(common: _Common, message: Fields) -> ConstraintsAdded:
    """ADD_FOREIGNKEY: the notification names the referenced table; the event concerns the referencing
    table.
    """
    event = build_constraints_added(common, message)
    if not event.texts:
        return event
    key = tjson.decode(SQLForeignKey, event.texts[0])
    owner = Fields({"db": key.fktable_db, "table": key.fktable_name}, message.limits)
    return replace(event, db=owner.name("db") or event.db, table=owner.name("table") or event.table)


def build_constraint_dropped(common: _Common, message: Fields) -> ConstraintDropped:
    """DROP_CONSTRAINT; the constraint's name keeps its case."""
    name = message.required_text("constraintName")
    message.name("constraintName")  # raises for a name that no constraint can have
    return ConstraintDropped(**fill_names(common, message, "dbName", "tableName"), name=name)


def build_function_created(common: _Common, message: Fields) -> FunctionCreated:
    """CREATE_FUNCTION."""
    function = Embedded(message.required_text("functionObjJson"), _FUNCTION)
    return FunctionCreated(**fill_names(common, message, "db"), function=function)


def build_function_dropped(common: _Common, message: Fields) -> FunctionDropped:
    """DROP_FUNCTION."""
    name = message.name("functionName")
    if name is None:
        raise MalformedEvent("the event does not name a function")
    return FunctionDropped(**fill_names(common, message, "db"), name=name)


def _parameters(message: Fields) -> dict[str, str]:
    """Read ``parameters``; not every release sends them, so any other shape counts as absent."""
    parameters = message.raw.get("parameters")
    if not isinstance(parameters, dict):
        return {}
    return {name: value for name, value in parameters.items() if isinstance(value, str)}


def _files(message: Fields, owner: Fields) -> tuple[SourceFile, ...]:
    """Read ``files`` of ``owner``; messages of Hive 2 have no ``tableType`` and shorter entries."""
    entries = owner.texts("files", "files")
    read = parse_source_files if "tableType" in message.raw else parse_plain_source_files
    return read(entries, message.limits)


def _files_by_partition(message: Fields) -> dict[str, tuple[SourceFile, ...]]:
    files: dict[str, tuple[SourceFile, ...]] = {}
    total = 0
    for item in message.items("partitionFiles", "partitions"):
        if type(item) is not dict:
            raise MalformedEvent("the field partitionFiles is not a list of objects", value=repr(item)[:100])
        one = Fields(item, message.limits)
        name = one.required_text("partitionName")
        files[name] = files.get(name, ()) + _files(message, one)
        total += len(files[name])
        if total > message.limits.files or len(name) > message.limits.path_chars:
            raise LimitExceeded(
                "the partitions have more files than the limit allows", limit="files", items=total
            )
    return files
