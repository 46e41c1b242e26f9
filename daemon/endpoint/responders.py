"""The port of responders: objects that answer a call, so that the session does not forward it unchanged.

A session tries its responders in order and forwards a call that none of them answers. A responder belongs to
one connection, so it may remember facts about that connection's metastore.
"""

from __future__ import annotations

from typing import Protocol

from daemon.endpoint.protocol.wire import Message


class Metastore(Protocol):
    """The calls of the metastore that a responder needs."""

    def exchange(self, request: Message) -> Message:
        """Send a request and return its complete answer."""


class Responder(Protocol):
    """Answers some calls."""

    def respond(self, request: Message, metastore: Metastore) -> Message | None:
        """Return the answer, or None to forward the call."""
