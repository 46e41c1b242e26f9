"""HTTP on one connection: uvicorn's protocol, which knows for how long it has waited for its client.

uvicorn limits only the pause between two requests. The server asks ``overdue`` of every connection twice a
second, and closes those whose client sends its headers or its body too slowly, or does not read its answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle
from uvicorn.server import ServerState

from daemon.http.transport.connections import Connection
from daemon.http.transport.limits import Limits


class LimitedProtocol(H11Protocol):
    """One connection (``daemon.http.transport.connections.Exchange``)."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        connection: Connection,
        clock: Callable[[], float],
        ended: Callable[[], None],
    ) -> None:
        """``ended`` is called at the end of the connection."""
        super().__init__(config, server_state, {**app_state, "connection": connection})
        self._connection = connection
        self._clock = clock
        self._ended = ended
        self._answered_s = connection.accepted_s
        self._asked_s = 0.0
        self._last_cycle: RequestResponseCycle | None = None
        self._unread_since_s: float | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as uvicorn
        """Begin; the TLS handshake is over."""
        super().connection_made(transport)
        certificate = transport.get_extra_info("peercert")
        if certificate:
            self.app_state = {**self.app_state, "certificate": certificate}
        self._connection.exchange = self
        self._connection.abort = transport.abort

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        super().connection_lost(exc)
        self._ended()

    def handle_events(self) -> None:
        """Take the data that has arrived, and note when a request begins."""
        super().handle_events()
        if self.cycle is not self._last_cycle:
            self._last_cycle, self._asked_s = self.cycle, self._clock()

    def on_response_complete(self) -> None:
        """Note when an answer is complete. A client that has sent another request before loses its
        connection: no library does, and many requests of one packet would delay everyone else's.
        """
        self._answered_s = self._clock()
        if self.conn.trailing_data[0]:
            self.transport.close()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """Note since when the client has left something unread."""
        self._unread_since_s = self._clock()
        super().pause_writing()

    def resume_writing(self) -> None:
        """Note that the client has read."""
        self._unread_since_s = None
        super().resume_writing()

    def waits_since(self) -> float | None:
        """Return since when the connection waits for its client: for a request, for the rest of one, or until
        it reads its answer. None while the server is at work.
        """
        if self._unread_since_s is not None:
            return self._unread_since_s
        if not self._is_answering():
            return self._answered_s
        return self._asked_s if self.cycle.more_body else None

    def overdue(self, now_s: float, limits: Limits) -> str | None:
        """Return which limit of time the client exceeds."""
        if self._unread_since_s is not None and now_s - self._unread_since_s > limits.unread_s:
            return "unread"
        if self._is_answering():
            if self.cycle.more_body and now_s - self._asked_s > limits.body_s:
                return "body"
            return "answer" if now_s - self._asked_s > limits.answer_s else None
        waited_s = now_s - self._answered_s
        if self.transport.get_write_buffer_size():
            return "unread" if waited_s > limits.unread_s else None
        return "head" if waited_s > limits.head_s else None

    def _is_answering(self) -> bool:
        return self._last_cycle is not None and not self._last_cycle.response_complete
