"""Reading the two formats whose messages are the metastore's own: ``tideline-1`` records and notification objects.

A notification object is the metastore's NotificationEvent as JSON: ``{"eventId", "eventTime", "eventType", "catName"?,
"dbName"?, "tableName"?, "message", "messageFormat"?}``, the message as text in one of its encodings.

Order of reading: first the position, then type and names, then the content; what fails after the place is an Undecodable event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from handlers.decoding import catalog_events as catalog
from handlers.decoding import transaction_events as transactions
from handlers.decoding.fields import Fields
from handlers.decoding.header import (
    Arrival,
    EventHeader,
    RecordPosition,
    check_header,
    peek_position,
    read_header,
    read_position,
)
from handlers.decoding.messages import unpack
from handlers.events import Event, Unhandled
from state.errors import BadInput, LimitExceeded, MalformedEvent


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.decoding.limits import Limits
    from handlers.decoding.messages import JsonObject
    from handlers.events import Undecodable


def tideline_event(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a ``tideline-1`` record; raise MalformedEvent where it has no position in the log."""
    position = read_position(envelope)
    header = read_header(position, envelope, limits, time_s=arrival.time_s if arrival else 0)
    try:
        check_header(envelope, limits)
        if not needs_message(header.kind):
            return unhandled(header)
        message = envelope.get("message")
        if type(message) is not dict:
            raise _missing_message(envelope)
    except BadInput as error:
        return header.undecodable(error)
    return event_of(header, message, limits)


def broken_tideline_event(value: bytes, error: BadInput, arrival: Arrival | None) -> Undecodable:
    """Return the event for a record whose JSON is broken; raise MalformedEvent where not even its place is readable."""
    try:
        position = peek_position(value)
    except BadInput:
        raise MalformedEvent("the record is no tideline-1 record", reason=error.message) from error
    return EventHeader(*position, time_s=arrival.time_s if arrival else 0, kind="").undecodable(error)


def notification_event(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a notification object; raise MalformedEvent where neither it nor ``arrival`` tells its position."""
    position = _notification_position(envelope, limits, arrival)
    found = read_header(position, envelope, limits, time_s=arrival.time_s if arrival else 0)
    header = found._replace(kind=canonical_kind(found.kind))
    try:
        check_header(envelope, limits)
        if not needs_message(header.kind):
            return unhandled(header)
        message = _message(envelope, limits)
    except BadInput as error:
        return header.undecodable(error)
    return event_of(header, message, limits)


def _notification_position(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> RecordPosition:
    event_id = Fields(envelope, limits).number("eventId")
    if event_id is not None:
        return RecordPosition(event_id, 0, 1)
    if arrival is None:
        raise MalformedEvent("the notification has no event id")
    return RecordPosition(arrival.event_id, 0, 1)


def _message(envelope: JsonObject, limits: Limits) -> JsonObject:
    """Return the message; some publishers put it in as an object already."""
    message = envelope.get("message")
    if type(message) is dict:
        return message
    fields = Fields(envelope, limits)
    return unpack(fields.required_text("message"), fields.text("messageFormat"), limits)


def _missing_message(envelope: JsonObject) -> BadInput:
    """Say why a record came without its message; the relay has left the reason in it."""
    oversize, problem = envelope.get("oversize"), envelope.get("problem")
    if oversize is not None:
        return LimitExceeded(
            "the event was too large for one record and could not be cut",
            hint="Raise relay.record.bytes.max and the topic's max.message.bytes, then read the event again.",
            size_bytes=oversize,
        )
    if problem is not None:
        return MalformedEvent("the relay could not read the message", reason=str(problem)[:300])
    return MalformedEvent("the record has no message")


_BUILDERS: Final[Mapping[str, Callable[[dict[str, Any], Fields], Event]]] = {
    "CREATE_DATABASE": catalog.database_created,
    "ALTER_DATABASE": catalog.database_altered,
    "DROP_DATABASE": catalog.database_dropped,
    "CREATE_TABLE": catalog.table_created,
    "ALTER_TABLE": catalog.table_altered,
    "DROP_TABLE": catalog.table_dropped,
    "ADD_PARTITION": catalog.partitions_added,
    "ALTER_PARTITION": catalog.partition_altered,
    "ALTER_PARTITIONS": catalog.partitions_altered,
    "DROP_PARTITION": catalog.partitions_dropped,
    "INSERT": catalog.inserted,
    "OPEN_TXN": transactions.txns_opened,
    "ALLOC_WRITE_ID_EVENT": transactions.write_ids_allocated,
    "WRITE": transactions.files_written,
    "ACID_WRITE_EVENT": transactions.files_written,
    "COMMIT_TXN": transactions.txn_committed,
    "ABORT_TXN": transactions.txn_aborted,
    "COMMIT_COMPACTION_EVENT": transactions.compaction_committed,
    "UPDATE_TBL_COL_STAT_EVENT": catalog.statistics_updated,
    "UPDATE_PART_COL_STAT_EVENT": catalog.statistics_updated,
    "DELETE_TBL_COL_STAT_EVENT": catalog.statistics_deleted,
    "DELETE_PART_COL_STAT_EVENT": catalog.statistics_deleted,
    **dict.fromkeys(catalog.CONSTRAINT_KINDS, catalog.constraints_added),
    "ADD_FOREIGNKEY": catalog.foreign_keys_added,
    "DROP_CONSTRAINT": catalog.constraint_dropped,
}
_NOTHING_TO_DO: Final = frozenset(
    {
        *("CREATE_FUNCTION", "DROP_FUNCTION", "RELOAD", "CONFIG_CHANGE_EVENT", "CONFIGCHANGE"),
        *(f"{verb}_CATALOG" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_ISCHEMA" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_SCHEMA_VERSION" for verb in ("ADD", "ALTER", "DROP")),
        *(f"{verb}_DATACONNECTOR" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_INDEX" for verb in ("CREATE", "ALTER", "DROP")),
    }
)
_SHORT: Final = {kind.removesuffix("_EVENT"): kind for kind in _BUILDERS if kind.endswith("_EVENT")}


def canonical_kind(kind: str) -> str:
    """Return the metastore's own name of a type; some publishers leave the ``_EVENT`` of some types out."""
    return _SHORT.get(kind, kind)


def needs_message(kind: str) -> bool:
    """Tell whether the message of this (canonical) type is looked at at all."""
    return kind in _BUILDERS


def event_of(header: EventHeader, message: JsonObject, limits: Limits) -> Event:
    """Build the event; one whose message cannot be used is Undecodable."""
    build = _BUILDERS.get(header.kind)
    if build is None:
        return unhandled(header)
    try:
        return build(header.fields(), Fields(message, limits))
    except BadInput as error:
        return header.undecodable(error)


def unhandled(header: EventHeader) -> Unhandled:
    """Return the event for a type that has no effect here."""
    return Unhandled(**header.fields(), known=header.kind in _NOTHING_TO_DO)
