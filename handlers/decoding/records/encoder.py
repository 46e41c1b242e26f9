"""Encodes notifications as Tideline's own records, ``tideline-1``:
one event, or one part of an event, as strict JSON.

The value is
``{"eventId", "part", "parts", "eventTime", "eventType", "catName", "dbName", "tableName", "message"}``, in
this order, so that ``header.peek_position`` needs only the first bytes. ``message`` is the event's own JSON
as an object. The record key is the name of the source; the header ``tideline.format`` names the format.

In the notification log a commit does not name its files. The relay therefore passes the commit's write
events, and they become records of type ``WRITE`` in front of the commit, under the same event id
(``commit_parts``). The message of the commit then has ``"enriched": true``.

The encoder omits nothing:

* A message that is too large for one record is split (``splitting``).
* A message that cannot be split becomes a record with ``"message": null`` and ``"oversize"``, its size in
  bytes.
* An unreadable message becomes a record with ``"message": null``, ``"problem"`` and, if there is room,
  ``"raw"``.
* An event that the metastore cannot return becomes a record of type ``UNREADABLE`` with ``"message": null``
  and ``"problem"``.

All but the first decode to Undecodable, so the reader decides on the consequence.

Events lost before they were relayed become one record of type ``EVENTS_LOST`` under the id of the last of
them, with ``firstEventId`` and ``lastEventId`` in its message.

Readers of parts must know: the parts of one ADD_PARTITION may name a partition more than once if its files
alone fill a record. All parts of a CREATE_TABLE create the table. Of an overwriting INSERT only the first
part replaces; the others add.
"""

from __future__ import annotations

from collections.abc import Sequence

from handlers.decoding.header import LOST_KIND, UNREADABLE_KIND
from handlers.decoding.messages import DEFAULT_LIMITS, JsonObject, Limits, unpack
from handlers.decoding.records.commit_parts import CommitParts
from handlers.decoding.records.record_writer import Record, RecordWriter, describe
from handlers.structs.notifications import NotificationEvent, WriteEventInfo
from state.errors import BadInput


def encode(  # noqa: PLR0913 -- the limits are keyword arguments with defaults
    source_name: str,
    notification: NotificationEvent,
    writes: Sequence[WriteEventInfo] | None,
    *,
    record_bytes_max: int,
    hard_bytes_max: int | None = None,
    limits: Limits = DEFAULT_LIMITS,
) -> list[Record]:
    """Return the records of one notification, in the order of their parts.

    ``writes`` are the write events of a COMMIT_TXN; None means that they were not fetched, and the commit is
    not marked as enriched. Raises MalformedEvent only for a notification without a position in the log;
    unusable content becomes a record that reports it.
    """
    writer = RecordWriter(
        source_name, notification, record_bytes_max=record_bytes_max, hard_bytes_max=hard_bytes_max
    )
    if notification.eventType == "COMMIT_TXN" and writes is not None:
        parts = CommitParts(writer, limits=limits)
        for each in writes:
            parts.receive(each)
        return list(parts.records())
    return encode_event(writer, limits)


def encode_event(
    writer: RecordWriter, limits: Limits = DEFAULT_LIMITS, *, extra: JsonObject | None = None
) -> list[Record]:
    """Return the records of a notification without write events; ``extra`` are fields
    added to its message.
    """
    whole = describe(writer.event)
    try:
        message = unpack(writer.event.message, writer.event.messageFormat, limits)
        bodies = writer.bodies(whole._replace(message=message | (extra or {})))
    except BadInput as error:
        bodies = [writer.problem(whole, error)]
    return [writer.record(body, part, len(bodies)) for part, body in enumerate(bodies)]


def encode_unreadable(writer: RecordWriter, error: BadInput) -> list[Record]:
    """Return the record of an event that the metastore cannot return;
    the names in ``writer.event`` may be unknown.
    """
    return [writer.record(writer.problem(describe(writer.event)._replace(kind=UNREADABLE_KIND), error), 0, 1)]


def encode_lost(source_name: str, lost: range, time_s: int, part: int = 0) -> Record:
    """Return the record that stands for the ids ``lost``, which are no longer readable.

    It is the last of ``part + 1`` parts: the topic may have earlier parts of the last lost event.
    """
    notification = NotificationEvent(eventId=lost[-1], eventTime=time_s, eventType=LOST_KIND, message="")
    writer = RecordWriter(source_name, notification, record_bytes_max=1 << 16)
    message: JsonObject = {"firstEventId": lost[0], "lastEventId": lost[-1]}
    (body,) = writer.bodies(describe(notification)._replace(message=message))
    return writer.record(body, part, part + 1)
