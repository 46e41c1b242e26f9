"""The Apiary listeners' formats: Kafka (``ON_*`` types, whole objects by field name) and SNS (names and locations only).

Source: ``KafkaMetaStoreEventListener`` and ``ApiarySnsListener`` of apiary-extensions (reference: peers §6.1, §6.2). Both are
published after the metastore's commit, without an event id in the order of the log, without a time (the SNS envelope has
one), and without transactions, statistics and constraints. So the place comes from the Kafka offset (``Arrival``), ACID
tables cannot be followed, and an insert does not say whether it replaced (``replace`` is None).

The SNS format names columns and files but no schema: its tables and partitions are built from what it has (names, location,
parameters, partition keys), so a projection that needs more has to ask the metastore.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from handlers.decoding.fields import Fields
from handlers.decoding.filelists import files_with_checksums
from handlers.decoding.messages import JsonObject, read_object
from handlers.decoding.named import embedded_partition, embedded_table, sns_partition, sns_table, spec_of
from handlers.decoding.notifications import unhandled
from handlers.decoding.origin import Arrival, Origin
from handlers.events import (
    Event,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    TableAltered,
    TableCreated,
    TableDropped,
)
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.decoding.limits import Limits

_Builder: TypeAlias = "Callable[[dict[str, Any], Fields], Event]"


def listener_event(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a record of the Kafka listener; raise MalformedEvent where ``arrival`` does not place it."""
    origin = _origin(record, limits, arrival, db="databaseName")
    return _built(_LISTENER, origin._replace(kind=origin.kind.removeprefix("ON_")), record, limits)


def sns_event(record: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode an SNS message, bare or in its envelope; raise MalformedEvent where ``arrival`` does not place it."""
    if "eventType" in record:
        return _built(_SNS, _origin(record, limits, arrival, db="dbName"), record, limits)
    placed = _origin({}, limits, arrival, db="dbName")
    try:
        fields = Fields(record, limits)
        message = read_object(fields.required_text("Message").encode(errors="replace"), limits.json_depth)
        time_s = _seconds(fields.text("Timestamp"))
    except BadInput as error:
        return placed.undecodable(error)
    origin = _origin(message, limits, arrival, db="dbName")
    return _built(_SNS, origin if time_s is None else origin._replace(time_s=time_s), message, limits)


def _origin(record: JsonObject, limits: Limits, arrival: Arrival | None, *, db: str) -> Origin:
    if arrival is None:
        raise MalformedEvent("the format has no event ids, and the record's offset was not given")
    kind = record.get("eventType")
    fields = Fields(record, limits)
    try:
        names = (fields.name(db), fields.name("tableName"))
    except BadInput:
        names = (None, None)
    return Origin(
        arrival.event_id, 0, 1, arrival.time_s, kind[:100] if type(kind) is str else "", None, *names
    )


def _built(builders: Mapping[str, _Builder], origin: Origin, record: JsonObject, limits: Limits) -> Event:
    build = builders.get(origin.kind)
    if build is None:
        return unhandled(origin)
    try:
        if origin.db is None or origin.table is None:
            raise MalformedEvent("the record does not name a database and a table that can be used")
        return build(origin.fields(), Fields(record, limits))
    except BadInput as error:
        return origin.undecodable(error)


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
