"""The query for the newest event id, on its own connection to the metastore.

Almost every answer from the index needs it, so the query is one prepared message. Sending and receiving are
separate steps, so that the endpoint makes the answer from the index in between.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Final

from thrift.Thrift import TMessageType, TType

from daemon.endpoint.protocol.wire import STOP, Header, Message, Value, is_struct, read_fields
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import Upstream
from state.errors import AmbiguousCall, BadInput


CONNECT_S: Final = 2.0
QUERY_S: Final = 5.0
"""Time for the answer; the metastore reads one row."""
_USUAL: Final = b"\x0c\x00\x00\x0a\x00\x01" + STOP + STOP
"""The usual answer without its id: field 0, a struct, whose field 1 is the only one. A client waits in the
meantime.
"""
_HEADER: Final = Header("get_current_notificationEventId", TMessageType.CALL, 1)
_REQUEST: Final = Message(_HEADER, STOP, _HEADER.to_bytes() + STOP)


class EventIdQuery:
    """Queries one metastore (``newest_event.EventQuery``). Only one thread at a time may use it."""

    def __init__(self, settings: EndpointSettings) -> None:
        self._settings = replace(
            settings, connect_s=min(CONNECT_S, settings.connect_s), answer_s=QUERY_S, request_s=QUERY_S
        )
        self._upstream: Upstream | None = None
        self._is_reused = False
        """Whether the connection had served a query before the current one."""

    def send(self) -> None:
        """Send the query; raise MetastoreUnavailable, AmbiguousCall."""
        self._is_reused = self._upstream is not None
        if not self._is_reused:
            self._send()
            return
        try:
            self._send()
        except AmbiguousCall:
            self._send_again()

    def receive(self) -> int:
        """Return the newest event id; raise MetastoreUnavailable, AmbiguousCall, BadInput."""
        try:
            return self._receive()
        except AmbiguousCall:
            if not self._is_reused:
                raise
        self._send_again()
        return self._receive()

    def close(self) -> None:
        """Close the connection; a later query connects again."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            with suppress(OSError):
                upstream.peer.close()

    def _send_again(self) -> None:
        """Send the query on a new connection, because the metastore has closed the idle one."""
        self._is_reused = False
        self._send()

    def _send(self) -> None:
        with self._closed_on_failure():
            if self._upstream is None:
                self._upstream = Upstream.of_endpoint(self._settings)
            self._upstream.send(_REQUEST)

    def _receive(self) -> int:
        with self._closed_on_failure():
            assert self._upstream is not None, "a query was sent"
            return _read_event_id(self._upstream.receive_answer(_REQUEST, _is_body))

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _is_body(data: bytes) -> bool:
    return _is_usual(data) or is_struct(data)


def _is_usual(body: bytes) -> bool:
    return len(body) == 16 and body[:6] + body[14:] == _USUAL


def _read_event_id(answer: Message) -> int:
    body = answer.body
    if answer.header.kind == TMessageType.REPLY and _is_usual(body):
        return int.from_bytes(body[6:14], signed=True)
    result = read_fields(answer.body).get(0) if answer.header.kind == TMessageType.REPLY else None
    value = read_fields(result.data).get(1) if result is not None and result.kind == TType.STRUCT else None
    if not isinstance(value, Value) or value.kind != TType.I64:
        raise BadInput("the metastore did not return its newest event id", kind=answer.header.kind)
    (event_id,) = struct.unpack(">q", value.data)
    return int(event_id)
