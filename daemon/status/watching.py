"""``GET /api/v1/status?watch``: sends the status as a server-sent event whenever it has changed.

The daemon builds the status at most once a second for all watchers together. It sends a comment every
``SILENT_S``, so that proxies keep the connection open. It ends a stream after ``STREAM_S``, which is below
the time limit of an answer, and when the daemon stops, after a last status that says so. Clients then connect
again and send ``Last-Event-ID``, so that they do not get an unchanged status twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from daemon.http.endpoints import HEADERS, Made, address_of
from daemon.http.transport.answering import Answering, Lane
from state.errors import Overloaded


WATCHERS_MAX: Final = 32
PAUSE_S: Final = 1.0
SILENT_S: Final = 15.0
STREAM_S: Final = 240.0
STREAM: Final = "text/event-stream"
_ENDED: Final = frozenset({"stopping", "stopped"})


class StatusWatchers:
    """The streams of one server. Use it only in the event loop."""

    def __init__(self, make: Callable[[], tuple[str, Made]]) -> None:
        """``make`` returns the state of the daemon, and the status in JSON."""
        self._make = make
        self.number = 0

    def respond(self, request: Request) -> Response:
        """Return the stream; raise Overloaded if there are too many."""
        if self.number >= WATCHERS_MAX:
            request.state.refused("watchers")
            raise Overloaded("too many clients watch the status", limit=WATCHERS_MAX)
        self.number += 1
        return _Stream(self, self._events(request), headers={**HEADERS, "content-type": STREAM})

    async def _events(self, request: Request) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop().time
        end_s, silent_since_s = clock() + STREAM_S, clock()
        last, state = request.headers.get("last-event-id", ""), ""
        yield b": watching\n\n"
        while state not in _ENDED and clock() < end_s:
            try:
                state, made = await self._share(request)
            except Overloaded:  # other requests come first
                made = None
            if made is not None and made.etag != last:
                last, silent_since_s = made.etag, clock()
                yield b"id: %b\ndata: %b\n\n" % (last.encode(), made.content)
            elif clock() >= silent_since_s + SILENT_S:
                silent_since_s = clock()
                yield b": unchanged\n\n"
            await asyncio.sleep(PAUSE_S)

    async def _share(self, request: Request) -> tuple[str, Made]:
        """Return the status that all watchers share."""
        answering: Answering = request.state.answering

        async def run() -> tuple[str, Made]:
            return await answering.run(self._make, Lane.STATUS, address_of(request))

        return await answering.shared.get(STREAM, run)


class _Stream(StreamingResponse):
    """One stream. It counts for the limit until it has ended."""

    def __init__(self, watchers: StatusWatchers, *content: Any, **options: Any) -> None:
        super().__init__(*content, **options)
        self._watchers = watchers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._watchers.number -= 1
