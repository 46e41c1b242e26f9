"""Decodes the formats of the Apiary listeners:
Kafka (``ON_*`` types, whole objects by field name) and SNS (names and locations only).

Source: ``KafkaMetaStoreEventListener`` and ``ApiarySnsListener`` of apiary-extensions (reference:
event-listeners.md §1, §2). Both publish after the metastore's commit. Their records have no event id in the
order of the log, no time (except in the SNS envelope), no transactions, statistics or constraints.
Consequently the position comes from the Kafka offset (``Arrival``), replication of ACID tables is impossible,
and an insert does not say whether it replaced data (``replace`` is None).

The SNS format lists columns and files but no schema. Its tables and partitions are built from names,
location, parameters and partition keys; a projection that needs more must query the metastore. Objects become
the same lazily decoded structs as elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import orjson

from handlers.decoding.embedded_objects import PartitionOutline, to_stored_type
from handlers.decoding.fields import Fields, pair_with_checksums
from handlers.decoding.header import Arrival, EventHeader
from handlers.decoding.messages import JsonObject, Limits, read_object, write
from handlers.decoding.notifications import build_unhandled
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


S = TypeVar("S", bound=Struct)


def _from_names(cls: type[S], text: str) -> S:
    return tjson.from_names(cls, orjson.loads(text))


def _read_table(text: str) -> Table:
    return to_stored_type(_from_names(Table, text))


_PARTITION: Final = (partial(_from_names, Partition), partial(_from_names, PartitionOutline))


def read_table(record: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent if it is not an object."""
    return Embedded(_write_text(record.raw.get(name), name), _read_table)


def read_partition(value: object) -> Embedded[Partition]:
    """Return ``value`` as a partition; raise MalformedEvent if it is not an object."""
    return Embedded(_write_text(value, "partition"), *_PARTITION)


def read_spec(record: Fields, value: object) -> dict[str, str]:
    """Return the columns and values of a partition, using the partition keys of the table in ``record``."""
    table, partition = record.raw.get("table"), value
    if type(table) is not dict or type(partition) is not dict:
        raise MalformedEvent("a dropped partition lacks its object or its table")
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


def build_sns_table(
    common: dict[str, Any], record: Fields, *, location: str = "tableLocation"
) -> Embedded[Table]:
    """Build a table from the names, location, parameters and partition keys of an SNS message."""
    columns = (record.spec("partitionKeys") if record.raw.get("partitionKeys") else None) or {}
    fields: JsonObject = {
        "tableName": common["table"],
        "dbName": common["db"],
        "sd": {"location": record.text(location)},
        "partitionKeys": [{"name": name, "type": kind} for name, kind in columns.items()],
        "parameters": record.raw.get("tableParameters"),
    }
    return Embedded(write(fields).decode(), partial(_from_names, Table))


def build_sns_partition(
    common: dict[str, Any], record: Fields, values: str, location: str
) -> Embedded[Partition]:
    """Build a partition from its values and location."""
    fields: JsonObject = {
        "values": record.texts(values, "partitions"),
        "dbName": common["db"],
        "tableName": common["table"],
        "sd": {"location": record.text(location)},
    }
    return Embedded(write(fields).decode(), *_PARTITION)


def _write_text(value: object, name: str) -> str:
    if type(value) is not dict:
        raise MalformedEvent(f"the field {name} is not an object", value=repr(value)[:100])
    return write(value).decode()


_Builder: TypeAlias = "Callable[[dict[str, Any], Fields], Event]"


def decode_listener_record(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a record of the Kafka listener; raise MalformedEvent if ``arrival`` is missing."""
    header = _read_header(record, limits, arrival, db="databaseName")
    return _build(_LISTENER, header._replace(kind=header.kind.removeprefix("ON_")), record, limits)


def decode_sns_message(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode an SNS message, bare or in its envelope; raise MalformedEvent if ``arrival`` is missing."""
    if "eventType" in record:
        return _build(_SNS, _read_header(record, limits, arrival, db="dbName"), record, limits)
    placed = _read_header({}, limits, arrival, db="dbName")
    try:
        fields = Fields(record, limits)
        message = read_object(fields.required_text("Message").encode(errors="replace"), limits.json_depth)
        time_s = _parse_seconds(fields.text("Timestamp"))
    except BadInput as error:
        return placed.to_undecodable(error)
    header = _read_header(message, limits, arrival, db="dbName")
    return _build(_SNS, header if time_s is None else header._replace(time_s=time_s), message, limits)


def _read_header(record: JsonObject, limits: Limits, arrival: Arrival | None, *, db: str) -> EventHeader:
    if arrival is None:
        raise MalformedEvent("the format has no event ids, and the record's offset is unknown")
    kind = record.get("eventType")
    fields = Fields(record, limits)
    try:
        names = (fields.name(db), fields.name("tableName"))
    except BadInput:
        names = (None, None)
    return EventHeader(
        arrival.event_id, 0, 1, arrival.time_s, kind[:100] if type(kind) is str else "", None, *names
    )


def _build(
    builders: Mapping[str, _Builder], header: EventHeader, record: JsonObject, limits: Limits
) -> Event:
    build = builders.get(header.kind)
    if build is None:
        return build_unhandled(header)
    try:
        if header.db is None or header.table is None:
            raise MalformedEvent("the record does not name a valid database and table")
        return build(header.fields(), Fields(record, limits))
    except BadInput as error:
        return header.to_undecodable(error)


def _parse_seconds(timestamp: str | None) -> int | None:
    """Parse the time of the SNS envelope (ISO 8601 with a zone); None if it is absent."""
    if timestamp is None:
        return None
    try:
        moment = datetime.fromisoformat(timestamp)
        return max(0, int(moment.timestamp()))
    except (ValueError, OverflowError, OSError) as error:
        raise MalformedEvent("the time of the envelope is not ISO 8601", value=timestamp[:60]) from error


# The Kafka listener


def _build_table_created(common: dict[str, Any], record: Fields) -> Event:
    return TableCreated(**common, after=read_table(record, "table"))


def _build_table_altered(common: dict[str, Any], record: Fields) -> Event:
    before, after = read_table(record, "oldTable"), read_table(record, "newTable")
    return TableAltered(**common, before=before, after=after)


def _build_table_dropped(common: dict[str, Any], record: Fields) -> Event:
    return TableDropped(**common, before=read_table(record, "table"))


def _build_partitions_added(common: dict[str, Any], record: Fields) -> Event:
    objects = record.items("partitions", "partitions")
    partitions = tuple(read_partition(value) for value in objects)
    return PartitionsAdded(**common, owner=read_table(record, "table"), partitions=partitions)


def _build_partition_altered(common: dict[str, Any], record: Fields) -> Event:
    return PartitionsAltered(
        **common,
        owner=read_table(record, "table"),
        after=(read_partition(record.raw.get("newPartition")),),
        before=read_partition(record.raw.get("oldPartition")),
    )


def _build_partitions_dropped(common: dict[str, Any], record: Fields) -> Event:
    owner = read_table(record, "table")
    specs = tuple(read_spec(record, value) for value in record.items("partitions", "partitions"))
    return PartitionsDropped(**common, owner=owner, specs=specs)


def _build_inserted(common: dict[str, Any], record: Fields) -> Event:
    """Both formats describe an insert in the same way."""
    files = pair_with_checksums(
        record.texts("files", "files"), record.texts("fileChecksums", "files"), record.limits
    )
    spec = record.spec("partitionKeyValues") if record.raw.get("partitionKeyValues") else None
    return Inserted(**common, owner=None, partition=None, spec=spec, replace=None, files=files)


_LISTENER: Final[Mapping[str, _Builder]] = {
    "CREATE_TABLE": _build_table_created,
    "ALTER_TABLE": _build_table_altered,
    "DROP_TABLE": _build_table_dropped,
    "ADD_PARTITION": _build_partitions_added,
    "ALTER_PARTITION": _build_partition_altered,
    "DROP_PARTITION": _build_partitions_dropped,
    "INSERT": _build_inserted,
}


# SNS


def _build_sns_table_created(common: dict[str, Any], record: Fields) -> Event:
    return TableCreated(**common, after=build_sns_table(common, record))


def _build_sns_table_altered(common: dict[str, Any], record: Fields) -> Event:
    old_name = record.name("oldTableName") or common["table"]
    before = build_sns_table(common | {"table": old_name}, record, location="oldTableLocation")
    return TableAltered(**common, before=before, after=build_sns_table(common, record))


def _build_sns_table_dropped(common: dict[str, Any], record: Fields) -> Event:
    return TableDropped(**common, before=build_sns_table(common, record))


def _build_sns_partition_added(common: dict[str, Any], record: Fields) -> Event:
    partition = build_sns_partition(common, record, "partitionValues", "partitionLocation")
    return PartitionsAdded(**common, owner=build_sns_table(common, record), partitions=(partition,))


def _build_sns_partition_altered(common: dict[str, Any], record: Fields) -> Event:
    return PartitionsAltered(
        **common,
        owner=build_sns_table(common, record),
        after=(build_sns_partition(common, record, "partitionValues", "partitionLocation"),),
        before=build_sns_partition(common, record, "oldPartitionValues", "oldPartitionLocation"),
    )


def _build_sns_partition_dropped(common: dict[str, Any], record: Fields) -> Event:
    columns = list(record.spec("partitionKeys") or ())
    values = record.texts("partitionValues", "partitions")
    if len(columns) != len(values):
        raise MalformedEvent(
            "partition keys and values differ in number", keys=len(columns), values=len(values)
        )
    spec = dict(zip(columns, values, strict=True))
    return PartitionsDropped(**common, owner=build_sns_table(common, record), specs=(spec,))


_SNS: Final[Mapping[str, _Builder]] = {
    "CREATE_TABLE": _build_sns_table_created,
    "ALTER_TABLE": _build_sns_table_altered,
    "DROP_TABLE": _build_sns_table_dropped,
    "ADD_PARTITION": _build_sns_partition_added,
    "ALTER_PARTITION": _build_sns_partition_altered,
    "DROP_PARTITION": _build_sns_partition_dropped,
    "INSERT": _build_inserted,
}
