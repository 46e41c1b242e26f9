"""Objects inside messages: kept as text, decoded when a projection asks for them.

They are Thrift's JSON protocol of the bare struct (reference §1.3), decoded by ``handlers.structs.tjson``. Here only their
presence and number is checked.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from handlers.decoding.fields import Fields, about, plain_source_files, source_files
from handlers.events import (
    ConstraintDropped,
    ConstraintsAdded,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Embedded,
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
from handlers.structs.objects import Database, Partition, Table
from handlers.structs.statistics import ColumnStatistics
from state.errors import LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Mapping


_DATABASE: Final = partial(tjson.decode, Database)
_TABLE: Final = partial(tjson.decode, Table)
_PARTITION: Final = partial(tjson.decode, Partition)
_STATISTICS: Final = partial(tjson.decode, ColumnStatistics)


def database(message: Fields, name: str) -> Embedded[Database]:
    """Return the database in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _DATABASE)


def optional_database(message: Fields, name: str) -> Embedded[Database] | None:
    """Return the database in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _DATABASE) if text else None


def table(message: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _TABLE)


def optional_table(message: Fields, name: str) -> Embedded[Table] | None:
    """Return the table in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _TABLE) if text else None


def partition(message: Fields, name: str) -> Embedded[Partition]:
    """Return the partition in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _PARTITION)


def optional_partition(message: Fields, name: str) -> Embedded[Partition] | None:
    """Return the partition in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _PARTITION) if text else None


def partitions(message: Fields, name: str) -> tuple[Embedded[Partition], ...]:
    """Return the list of partitions in field ``name``."""
    return tuple(Embedded(text, _PARTITION) for text in message.texts(name, "partitions"))


def statistics(message: Fields, name: str) -> Embedded[ColumnStatistics]:
    """Return the column statistics in field ``name``; raise MalformedEvent where they are missing."""
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


def database_created(common: _Common, message: Fields) -> DatabaseCreated:
    """CREATE_DATABASE; Hive 2.3 does not send the object."""
    return DatabaseCreated(**about(common, message, "db"), database=optional_database(message, "dbJson"))


def database_altered(common: _Common, message: Fields) -> DatabaseAltered:
    """ALTER_DATABASE."""
    before, after = database(message, "dbObjBeforeJson"), database(message, "dbObjAfterJson")
    return DatabaseAltered(**about(common, message, "db"), before=before, after=after)


def database_dropped(common: _Common, message: Fields) -> DatabaseDropped:
    """DROP_DATABASE."""
    return DatabaseDropped(**about(common, message, "db"))


def table_created(common: _Common, message: Fields) -> TableCreated:
    """CREATE_TABLE."""
    after = table(message, "tableObjJson")
    return TableCreated(**about(common, message, "db", "table"), after=after, files=_files(message, message))


def table_altered(common: _Common, message: Fields) -> TableAltered:
    """ALTER_TABLE."""
    return TableAltered(
        **about(common, message, "db", "table"),
        before=table(message, "tableObjBeforeJson"),
        after=table(message, "tableObjAfterJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def table_dropped(common: _Common, message: Fields) -> TableDropped:
    """DROP_TABLE; Hive 2.3 does not send the object."""
    before = optional_table(message, "tableObjJson")
    return TableDropped(**about(common, message, "db", "table"), before=before)


def partitions_added(common: _Common, message: Fields) -> PartitionsAdded:
    """ADD_PARTITION."""
    return PartitionsAdded(
        **about(common, message, "db", "table"),
        owner=optional_table(message, "tableObjJson"),
        partitions=partitions(message, "partitionListJson"),
        files=_files_by_partition(message),
    )


def partitions_altered(common: _Common, message: Fields) -> PartitionsAltered:
    """ALTER_PARTITIONS (4.1 and later): only what the partitions became."""
    return PartitionsAltered(
        **about(common, message, "db", "table"),
        owner=optional_table(message, "tableObjJson"),
        after=partitions(message, "partitionListJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def partition_altered(common: _Common, message: Fields) -> PartitionsAltered:
    """ALTER_PARTITION: one partition, before and after."""
    return PartitionsAltered(
        **about(common, message, "db", "table"),
        owner=optional_table(message, "tableObjJson"),
        after=(partition(message, "partitionObjAfterJson"),),
        before=partition(message, "partitionObjBeforeJson"),
        truncate=message.flag("isTruncateOp"),
        write_id=message.write_id(),
    )


def partitions_dropped(common: _Common, message: Fields) -> PartitionsDropped:
    """DROP_PARTITION."""
    owner = optional_table(message, "tableObjJson")
    specs = message.specs("partitions")
    return PartitionsDropped(**about(common, message, "db", "table"), owner=owner, specs=specs)


def inserted(common: _Common, message: Fields) -> Inserted:
    """INSERT; Hive 2.3 names the partition by its values (``partKeyVals``), later ones send the object."""
    return Inserted(
        **about(common, message, "db", "table"),
        owner=optional_table(message, "tableObjJson"),
        partition=optional_partition(message, "ptnObjJson"),
        spec=message.spec("partKeyVals") or None,
        replace=message.flag("replace"),
        files=_files(message, message),
    )


def statistics_updated(common: _Common, message: Fields) -> StatisticsUpdated:
    """UPDATE_TBL_COL_STAT_EVENT and UPDATE_PART_COL_STAT_EVENT."""
    return StatisticsUpdated(
        **about(common, message, "database"),
        owner=optional_table(message, "tableObjJson"),
        statistics=statistics(message, "colStatsJson"),
        write_id=message.write_id(),
        parameters=_parameters(message),
    )


def statistics_deleted(common: _Common, message: Fields) -> StatisticsDeleted:
    """DELETE_TBL_COL_STAT_EVENT and DELETE_PART_COL_STAT_EVENT."""
    return StatisticsDeleted(
        **about(common, message, "database"),
        column=message.name("colName"),
        partition_name=message.text("partName"),
    )


def constraints_added(common: _Common, message: Fields) -> ConstraintsAdded:
    """ADD_PRIMARYKEY and its siblings; the message names no table, only the notification and the constraints do."""
    texts = message.texts(_CONSTRAINT_LISTS[common["kind"]], "partitions")
    return ConstraintsAdded(**common, texts=texts)


def foreign_keys_added(common: _Common, message: Fields) -> ConstraintsAdded:
    """ADD_FOREIGNKEY: the notification names the table that is referred to; the event is about the one that refers."""
    event = constraints_added(common, message)
    if not event.texts:
        return event
    key = tjson.decode(SQLForeignKey, event.texts[0])
    owner = Fields({"db": key.fktable_db, "table": key.fktable_name}, message.limits)
    return replace(event, db=owner.name("db") or event.db, table=owner.name("table") or event.table)


def constraint_dropped(common: _Common, message: Fields) -> ConstraintDropped:
    """DROP_CONSTRAINT; the constraint's name keeps its case."""
    name = message.required_text("constraintName")
    message.name("constraintName")  # refuses a name that no constraint can have
    return ConstraintDropped(**about(common, message, "dbName", "tableName"), name=name)


def _parameters(message: Fields) -> dict[str, str]:
    """Read ``parameters``; they are an addition that not every release sends, so another shape says nothing."""
    found = message.raw.get("parameters")
    if not isinstance(found, dict):
        return {}
    return {name: value for name, value in found.items() if isinstance(value, str)}


def _files(message: Fields, owner: Fields) -> tuple[SourceFile, ...]:
    """Read ``files`` of ``owner``; before Hive 3 there was no ``tableType``, and entries were shorter."""
    entries = owner.texts("files", "files")
    read = source_files if "tableType" in message.raw else plain_source_files
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
                "the partitions' files are more than the limit allows", limit="files", items=total
            )
    return files
