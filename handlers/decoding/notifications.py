"""Decodes the two formats whose messages are the metastore's own:
``tideline-1`` records and notification objects.

The two differ only in their envelope. A notification object is the metastore's NotificationEvent as JSON:
``{"eventId", "eventTime", "eventType", "catName"?, "dbName"?, "tableName"?, "message", "messageFormat"?}``,
with the message as encoded text.

The header is read first, then the message. A failure after the position is known yields an Undecodable event.
The table of event types is complete for Hive 2.3 to 4.2; a type that it lacks comes from a newer metastore
and is counted, not refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from handlers.decoding import catalog_events as catalog
from handlers.decoding import transaction_events as transactions
from handlers.decoding.fields import Fields
from handlers.decoding.header import (
    LOST_KIND,
    UNREADABLE_KIND,
    Arrival,
    EventHeader,
    RecordPosition,
    check_header,
    peek_position,
    read_header,
    read_position,
)
from handlers.decoding.messages import JsonObject, Limits, read_object, unpack_text
from handlers.decoding.write_events import build_files_written
from handlers.events import Event, EventsLost, Undecodable, Unhandled
from state.errors import BadInput, LimitExceeded, MalformedEvent


def decode_tideline_record(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a ``tideline-1`` record; raise MalformedEvent if it has no position in the log."""
    position = read_position(envelope)
    header = read_header(position, envelope, limits, time_s=arrival.time_s if arrival else 0)
    try:
        check_header(envelope, limits)
        if not needs_message(header.kind):
            return build_unhandled(header)
        message = envelope.get("message")
        if type(message) is not dict:
            raise _missing_message(envelope)
    except BadInput as error:
        return header.to_undecodable(error)
    return build_event(header, message, limits)


def decode_broken_record(value: bytes, error: BadInput, arrival: Arrival | None) -> Undecodable:
    """Return the event for a record whose JSON is broken; raise MalformedEvent if even its position is
    unreadable.
    """
    try:
        position = peek_position(value)
    except BadInput:
        raise MalformedEvent("the record is not a tideline-1 record", reason=error.message) from error
    return EventHeader(*position, time_s=arrival.time_s if arrival else 0, kind="").to_undecodable(error)


def decode_notification(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> Event:
    """Decode a notification object; raise MalformedEvent if neither it nor ``arrival`` has a position."""
    position = _notification_position(envelope, limits, arrival)
    found = read_header(position, envelope, limits, time_s=arrival.time_s if arrival else 0)
    header = found._replace(kind=expand_kind(found.kind))
    try:
        check_header(envelope, limits)
        if not needs_message(header.kind):
            return build_unhandled(header)
        message, unpacked_bytes = _message(envelope, limits)
    except BadInput as error:
        return header.to_undecodable(error)
    return build_event(header._replace(unpacked_bytes=unpacked_bytes), message, limits)


def _notification_position(envelope: JsonObject, limits: Limits, arrival: Arrival | None) -> RecordPosition:
    event_id = Fields(envelope, limits).number("eventId")
    if event_id is not None:
        return RecordPosition(event_id, 0, 1)
    if arrival is None:
        raise MalformedEvent("the notification has no event id")
    return RecordPosition(arrival.event_id, 0, 1)


def _message(envelope: JsonObject, limits: Limits) -> tuple[JsonObject, int]:
    """Return the message, which some publishers embed as an object instead of text, and the length of its
    text if packed.
    """
    message = envelope.get("message")
    if type(message) is dict:
        return message, 0
    fields = Fields(envelope, limits)
    text = unpack_text(fields.required_text("message"), fields.text("messageFormat"), limits)
    return read_object(text, limits.json_depth), len(text)


def _missing_message(envelope: JsonObject) -> BadInput:
    """Return the reason that the relay recorded for a missing message."""
    oversize, problem = envelope.get("oversize"), envelope.get("problem")
    if oversize is not None:
        return LimitExceeded(
            "the event is too large for one record and cannot be split",
            hint="Raise relay.record_bytes_max and the topic's max.message.bytes, then read the event again.",
            size_bytes=oversize,
        )
    if problem is not None:
        return MalformedEvent("the relay cannot read the message", reason=str(problem)[:300])
    return MalformedEvent("the record has no message")


def _build_events_lost(common: dict[str, Any], message: Fields) -> EventsLost:
    return EventsLost(**common, first_event_id=message.required_number("firstEventId"))


_BUILDERS: Final[Mapping[str, Callable[[dict[str, Any], Fields], Event]]] = {
    "CREATE_DATABASE": catalog.build_database_created,
    "ALTER_DATABASE": catalog.build_database_altered,
    "DROP_DATABASE": catalog.build_database_dropped,
    "CREATE_TABLE": catalog.build_table_created,
    "ALTER_TABLE": catalog.build_table_altered,
    "DROP_TABLE": catalog.build_table_dropped,
    "ADD_PARTITION": catalog.build_partitions_added,
    "ALTER_PARTITION": catalog.build_partition_altered,
    "ALTER_PARTITIONS": catalog.build_partitions_altered,
    "DROP_PARTITION": catalog.build_partitions_dropped,
    "INSERT": catalog.build_inserted,
    "OPEN_TXN": transactions.build_txns_opened,
    "ALLOC_WRITE_ID_EVENT": transactions.build_write_ids_allocated,
    "WRITE": build_files_written,
    "ACID_WRITE_EVENT": build_files_written,
    "COMMIT_TXN": transactions.build_txn_committed,
    "ABORT_TXN": transactions.build_txn_aborted,
    "COMMIT_COMPACTION_EVENT": transactions.build_compaction_committed,
    "UPDATE_TBL_COL_STAT_EVENT": catalog.build_statistics_updated,
    "UPDATE_PART_COL_STAT_EVENT": catalog.build_statistics_updated,
    "DELETE_TBL_COL_STAT_EVENT": catalog.build_statistics_deleted,
    "DELETE_PART_COL_STAT_EVENT": catalog.build_statistics_deleted,
    **dict.fromkeys(catalog.CONSTRAINT_KINDS, catalog.build_constraints_added),
    "ADD_FOREIGNKEY": catalog.build_foreign_keys_added,
    "DROP_CONSTRAINT": catalog.build_constraint_dropped,
    "CREATE_FUNCTION": catalog.build_function_created,
    "DROP_FUNCTION": catalog.build_function_dropped,
    LOST_KIND: _build_events_lost,
}
_NOTHING_TO_DO: Final = frozenset(
    {
        *("RELOAD", "CONFIG_CHANGE_EVENT", "CONFIGCHANGE"),
        *(f"{verb}_CATALOG" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_ISCHEMA" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_SCHEMA_VERSION" for verb in ("ADD", "ALTER", "DROP")),
        *(f"{verb}_DATACONNECTOR" for verb in ("CREATE", "ALTER", "DROP")),
        *(f"{verb}_INDEX" for verb in ("CREATE", "ALTER", "DROP")),
    }
)
_SHORT: Final = {kind.removesuffix("_EVENT"): kind for kind in _BUILDERS if kind.endswith("_EVENT")}


def expand_kind(kind: str) -> str:
    """Return the metastore's own name of a type; some publishers omit the suffix ``_EVENT``."""
    return _SHORT.get(kind, kind)


def needs_message(kind: str) -> bool:
    """Return whether events of this (expanded) type are built from their message."""
    return kind in _BUILDERS or kind == UNREADABLE_KIND


def build_event(header: EventHeader, message: JsonObject, limits: Limits) -> Event:
    """Build the event; it is Undecodable if the message is unusable."""
    build = _BUILDERS.get(header.kind)
    if build is None:
        return build_unhandled(header)
    try:
        return build(header.fields(), Fields(message, limits))
    except BadInput as error:
        return header.to_undecodable(error)


def build_unhandled(header: EventHeader) -> Unhandled:
    """Build the event of a type that has no effect here."""
    return Unhandled(**header.fields(), is_known=header.kind in _NOTHING_TO_DO)
