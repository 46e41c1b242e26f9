"""Writes the records of one notification: the envelope around a message, and the limits on its size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from handlers.decoding.header import FORMAT, FORMAT_HEADER
from handlers.decoding.messages import JsonObject, write
from handlers.decoding.records.splitting import split_message
from state.errors import BadInput, MalformedEvent


if TYPE_CHECKING:
    from handlers.structs.notifications import NotificationEvent


_HEADERS: Final = ((FORMAT_HEADER, FORMAT.encode()),)
_POSITION_DIGITS: Final = 16  # digits of the largest part number and count, beyond one each


@dataclass(frozen=True, slots=True)
class Record:
    """A Kafka record."""

    key: bytes
    value: bytes
    headers: tuple[tuple[str, bytes], ...] = _HEADERS


class Piece(NamedTuple):
    """The content of one record before it has a position: event type, names and message."""

    kind: str
    catalog: str | None
    db: str | None
    table: str | None
    message: JsonObject


class RecordWriter:
    """Writes the records of one notification.

    A value has at most ``record_bytes_max`` bytes. One that cannot be split further may have up to ``hard_bytes_max`` (default: the
    same), which must fit the topic's ``max.message.bytes``.
    """

    def __init__(
        self,
        source_name: str,
        notification: NotificationEvent,
        *,
        record_bytes_max: int,
        hard_bytes_max: int | None = None,
    ) -> None:
        """Raise MalformedEvent for a notification without a position in the log."""
        if type(notification.eventId) is not int or type(notification.eventTime) is not int:
            raise MalformedEvent("the notification lacks an event id or a time")
        self.key = source_name.encode()
        self.event = notification
        self._soft = record_bytes_max
        self._hard = max(record_bytes_max, hard_bytes_max or 0)

    def bodies(self, piece: Piece) -> list[bytes]:
        """Return the values without their positions: one, or several if ``piece`` is too large for one record; raise BadInput."""
        body = write(self._fields(piece) | {"message": piece.message})
        if len(body) + self._head_bytes <= self._soft:
            return [body]
        envelope_bytes = len(body) + self._head_bytes - len(write(piece.message))
        room = (self._soft - envelope_bytes, self._hard - envelope_bytes)
        parts = split_message(piece.kind, piece.message, *room)
        return [self._bounded_body(piece, part) for part in parts]

    def problem(self, piece: Piece, error: BadInput) -> bytes:
        """Return the value without its position for a piece that cannot be written: the reason and, if there is room, its text."""
        catalog, db, table = (to_printable(name) for name in (piece.catalog, piece.db, piece.table))
        named = Piece(to_printable(piece.kind) or "", catalog, db, table, {})
        fields = self._fields(named) | {
            "message": None,
            "problem": to_printable(f"[{error.code}] {error.message}"),
        }
        raw = {"raw": to_printable(self.event.message), "rawFormat": to_printable(self.event.messageFormat)}
        body = write(fields | raw)
        return body if len(body) + self._head_bytes <= self._hard else write(fields)

    def record(self, body: bytes, part: int, parts: int) -> Record:
        """Return the record with ``body`` at its position."""
        return Record(self.key, self._head(part, parts) + body[1:])

    @property
    def _head_bytes(self) -> int:
        return len(self._head(0, 1)) - 1 + _POSITION_DIGITS

    def _head(self, part: int, parts: int) -> bytes:
        return b'{"eventId":%d,"part":%d,"parts":%d,' % (self.event.eventId, part, parts)

    def _fields(self, piece: Piece) -> dict[str, Any]:
        return {
            "eventTime": self.event.eventTime,
            "eventType": piece.kind,
            "catName": piece.catalog,
            "dbName": piece.db,
            "tableName": piece.table,
        }

    def _bounded_body(self, piece: Piece, message: JsonObject) -> bytes:
        body = write(self._fields(piece) | {"message": message})
        size = len(body) + self._head_bytes - _POSITION_DIGITS
        if size <= self._hard:
            return body
        return write(self._fields(piece) | {"message": None, "oversize": size})


def describe(event: NotificationEvent) -> Piece:
    """Return the piece of a notification, without its message."""
    return Piece(event.eventType, event.catName, event.dbName, event.tableName, {})


def to_printable(text: str | None) -> str | None:
    """Return ``text`` in valid Unicode."""
    return None if text is None else str(text).encode(errors="replace").decode()
