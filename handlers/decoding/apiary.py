"""Objects by field names, as the Apiary formats have them, made into the same lazily decoded structs as all others."""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import orjson

from handlers.decoding.fields import Fields, files_with_checksums
from handlers.decoding.header import Arrival, EventHeader
from handlers.decoding.messages import JsonObject, read_object, write
from handlers.decoding.notifications import unhandled
from handlers.events import (
    Embedded,
    Event,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.structs import tjson
from handlers.structs.objects import Partition, Table
from handlers.structs.struct import Struct
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.decoding.limits import Limits


S = TypeVar("S", bound=Struct)


def _from_names(cls: type[S], text: str) -> S:
    return tjson.from_names(cls, orjson.loads(text))


_TABLE: Final = partial(_from_names, Table)
_PARTITION: Final = partial(_from_names, Partition)


def embedded_table(record: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent where there is no object."""
    return Embedded(_text(record.raw.get(name), name), _TABLE)


def embedded_partition(value: object) -> Embedded[Partition]:
    """Return the partition that ``value`` is; raise MalformedEvent where it is no object."""
    return Embedded(_text(value, "partition"), _PARTITION)


def spec_of(record: Fields, value: object) -> dict[str, str]:
    """Return the columns and values of a partition, by the partition keys of ``record``'s table."""
    table, partition = record.raw.get("table"), value
    if type(table) is not dict or type(partition) is not dict:
        raise MalformedEvent("a dropped partition has no object or no table")
    columns = [
        Fields(key, record.limits).name("name") if type(key) is dict else None
        for key in Fields(table, record.limits).items("partitionKeys", "partitions")
    ]
    values = Fields(partition, record.limits).texts("values", "partitions")
    if None in columns or len(columns) != len(values):
        raise MalformedEvent(
            "partition keys and values differ in number", keys=len(columns), values=len(values)
        )
    return {str(column): text for column, text in zip(columns, values, strict=True)}


def sns_table(common: dict[str, Any], record: Fields, *, location: str = "tableLocation") -> Embedded[Table]:
    """Build a table from what the SNS format has: names, location, parameters, partition keys."""
    columns = (record.spec("partitionKeys") if record.raw.get("partitionKeys") else None) or {}
    fields: JsonObject = {
        "tableName": common["table"],
        "dbName": common["db"],
        "sd": {"location": record.text(location)},
        "partitionKeys": [{"name": name, "type": kind} for name, kind in columns.items()],
        "parameters": record.raw.get("tableParameters"),
    }
    return Embedded(write(fields).decode(), _TABLE)


def sns_partition(common: dict[str, Any], record: Fields, values: str, location: str) -> Embedded[Partition]:
    """Build a partition from its values and location."""
    fields: JsonObject = {
        "values": record.texts(values, "partitions"),
        "dbName": common["db"],
        "tableName": common["table"],
        "sd": {"location": record.text(location)},
    }
    return Embedded(write(fields).decode(), _PARTITION)


def _text(value: object, name: str) -> str:
    if type(value) is not dict:
        raise MalformedEvent(f"the field {name} is not an object", value=repr(value)[:100])
    return write(value).decode()


_Builder: TypeAlias = "Callable[[dict[str, Any], Fields], Event]"


def listener_event(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a record of the Kafka listener; raise MalformedEvent where ``arrival`` does not place it."""
    header = _header(record, limits, arrival, db="databaseName")
    return _built(_LISTENER, header._replace(kind=header.kind.removeprefix("ON_")), record, limits)


def sns_event(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode an SNS message, bare or in its envelope; raise MalformedEvent where ``arrival`` does not place it."""
    if "eventType" in record:
        return _built(_SNS, _header(record, limits, arrival, db="dbName"), record, limits)
    placed = _header({}, limits, arrival, db="dbName")
    try:
        fields = Fields(record, limits)
        message = read_object(fields.required_text("Message").encode(errors="replace"), limits.json_depth)
        time_s = _seconds(fields.text("Timestamp"))
    except BadInput as error:
        return placed.undecodable(error)
    header = _header(message, limits, arrival, db="dbName")
    return _built(_SNS, header if time_s is None else header._replace(time_s=time_s), message, limits)


def _header(record: JsonObject, limits: Limits, arrival: Arrival | None, *, db: str) -> EventHeader:
    if arrival is None:
        raise MalformedEvent("the format has no event ids, and the record's offset was not given")
    kind = record.get("eventType")
    fields = Fields(record, limits)
    try:
        names = (fields.name(db), fields.name("tableName"))
    except BadInput:
        names = (None, None)
    return EventHeader(
        arrival.event_id, 0, 1, arrival.time_s, kind[:100] if type(kind) is str else "", None, *names
    )


def _built(
    builders: Mapping[str, _Builder], header: EventHeader, record: JsonObject, limits: Limits
) -> Event:
    build = builders.get(header.kind)
    if build is None:
        return unhandled(header)
    try:
        if header.db is None or header.table is None:
            raise MalformedEvent("the record does not name a database and a table that can be used")
        return build(header.fields(), Fields(record, limits))
    except BadInput as error:
        return header.undecodable(error)


def _seconds(timestamp: str | None) -> int | None:
    """Read the SNS envelope's time (ISO 8601 with a zone); None where there is none."""
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError, OSError) as error:
        raise MalformedEvent("the envelope's time is no ISO 8601 time", value=timestamp[:60]) from error


# The Kafka listener


def _table_created(common: dict[str, Any], record: Fields) -> Event:
    return TableCreated(**common, after=embedded_table(record, "table"))


def _table_altered(common: dict[str, Any], record: Fields) -> Event:
    before, after = embedded_table(record, "oldTable"), embedded_table(record, "newTable")
    return TableAltered(**common, before=before, after=after)


def _table_dropped(common: dict[str, Any], record: Fields) -> Event:
    return TableDropped(**common, before=embedded_table(record, "table"))


def _partitions_added(common: dict[str, Any], record: Fields) -> Event:
    objects = record.items("partitions", "partitions")
    partitions = tuple(embedded_partition(value) for value in objects)
    return PartitionsAdded(**common, owner=embedded_table(record, "table"), partitions=partitions)


def _partition_altered(common: dict[str, Any], record: Fields) -> Event:
    return PartitionsAltered(
        **common,
        owner=embedded_table(record, "table"),
        after=(embedded_partition(record.raw.get("newPartition")),),
        before=embedded_partition(record.raw.get("oldPartition")),
    )


def _partitions_dropped(common: dict[str, Any], record: Fields) -> Event:
    owner = embedded_table(record, "table")
    specs = tuple(spec_of(record, value) for value in record.items("partitions", "partitions"))
    return PartitionsDropped(**common, owner=owner, specs=specs)


def _inserted(common: dict[str, Any], record: Fields) -> Event:
    """Both formats write an insert alike."""
    files = files_with_checksums(
        record.texts("files", "files"), record.texts("fileChecksums", "files"), record.limits
    )
    spec = record.spec("partitionKeyValues") if record.raw.get("partitionKeyValues") else None
    return Inserted(**common, owner=None, partition=None, spec=spec, replace=None, files=files)


_LISTENER: Final[Mapping[str, _Builder]] = {
    "CREATE_TABLE": _table_created,
    "ALTER_TABLE": _table_altered,
    "DROP_TABLE": _table_dropped,
    "ADD_PARTITION": _partitions_added,
    "ALTER_PARTITION": _partition_altered,
    "DROP_PARTITION": _partitions_dropped,
    "INSERT": _inserted,
}


# SNS


def _sns_table_created(common: dict[str, Any], record: Fields) -> Event:
    return TableCreated(**common, after=sns_table(common, record))


def _sns_table_altered(common: dict[str, Any], record: Fields) -> Event:
    old_name = record.name("oldTableName") or common["table"]
    before = sns_table(common | {"table": old_name}, record, location="oldTableLocation")
    return TableAltered(**common, before=before, after=sns_table(common, record))


def _sns_table_dropped(common: dict[str, Any], record: Fields) -> Event:
    return TableDropped(**common, before=sns_table(common, record))


def _sns_partition_added(common: dict[str, Any], record: Fields) -> Event:
    partition = sns_partition(common, record, "partitionValues", "partitionLocation")
    return PartitionsAdded(**common, owner=sns_table(common, record), partitions=(partition,))


def _sns_partition_altered(common: dict[str, Any], record: Fields) -> Event:
    return PartitionsAltered(
        **common,
        owner=sns_table(common, record),
        after=(sns_partition(common, record, "partitionValues", "partitionLocation"),),
        before=sns_partition(common, record, "oldPartitionValues", "oldPartitionLocation"),
    )


def _sns_partition_dropped(common: dict[str, Any], record: Fields) -> Event:
    columns = list(record.spec("partitionKeys") or ())
    values = record.texts("partitionValues", "partitions")
    if len(columns) != len(values):
        raise MalformedEvent(
            "partition keys and values differ in number", keys=len(columns), values=len(values)
        )
    spec = dict(zip(columns, values, strict=True))
    return PartitionsDropped(**common, owner=sns_table(common, record), specs=(spec,))


_SNS: Final[Mapping[str, _Builder]] = {
    "CREATE_TABLE": _sns_table_created,
    "ALTER_TABLE": _sns_table_altered,
    "DROP_TABLE": _sns_table_dropped,
    "ADD_PARTITION": _sns_partition_added,
    "ALTER_PARTITION": _sns_partition_altered,
    "DROP_PARTITION": _sns_partition_dropped,
    "INSERT": _inserted,
}
