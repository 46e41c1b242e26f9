"""SASL (Kerberos, delegation tokens, passwords): passes the messages with which a client authenticates itself
on to the metastore.

The endpoint needs no credentials, cannot act for its clients, and the metastore sees the user it would see
directly. A negotiation consists of messages with a status and a length; it ends when the server sends
COMPLETE or an error. Then both sides send frames:

* plain ones if the sides agreed on authentication only (``auth``, Hive's default): the endpoint serves them
  like any framed connection; * signed or encrypted ones (``auth-int``, ``auth-conf``): the endpoint cannot
  read them, and passes all bytes on until the connection ends.

The first frame shows which of the two applies: only a plain one holds a complete call.
"""

from __future__ import annotations

import select
import struct
from collections.abc import Callable
from typing import Final

from daemon.endpoint.protocol.peer import Disconnected, Peer, remaining_s
from daemon.endpoint.protocol.request_budget import RequestAccount
from daemon.endpoint.protocol.streams import Incoming, Transport
from daemon.endpoint.protocol.wire import read_fields
from handlers.metastore.login.sasl import Status
from state.errors import BadInput, LimitExceeded


START: Final = b"\x01\x00\x00\x00"
"""The first message has status 1 and the name of the mechanism, which has at most 20 bytes."""
NAME_BYTES_MAX: Final = 20
HEADER_BYTES: Final = 5
MESSAGE_BYTES_MAX: Final = 1 << 20
"""Largest message of a negotiation. Tickets have a few kilobytes, and their sender is not known yet."""


def is_sasl(start: bytes) -> bool:
    """Whether a client's first five bytes begin a negotiation."""
    return start[:4] == START and 0 < start[4] <= NAME_BYTES_MAX


def error_message(text: str) -> bytes:
    """Return the message with which a server ends a negotiation; clients show its text."""
    return struct.pack(">BI", Status.ERROR, len(text.encode())) + text.encode()


def negotiate(client: Peer, server: Peer, deadline: float, account: RequestAccount) -> bool:
    """Pass the messages of a negotiation on; return whether the server accepted the client.

    Raises BadInput, LimitExceeded, Disconnected and OSError. The client speaks first and then after each
    answer. ``account`` counts the client's bytes.
    """
    _pass_on(
        client, server, deadline, account
    )  # START, which the client's first response follows without an answer in between
    while True:
        if _pass_on(client, server, deadline, account) in {Status.BAD, Status.ERROR}:
            return False
        status = _pass_on(server, client, deadline)
        if status is not Status.OK:
            return status is Status.COMPLETE


def _pass_on(sender: Peer, receiver: Peer, deadline: float, account: RequestAccount | None = None) -> Status:
    """Pass one message of the negotiation on and return its status."""
    header = read_exactly(sender, HEADER_BYTES, deadline)
    number, size = struct.unpack(">BI", header)
    if size > MESSAGE_BYTES_MAX:
        raise LimitExceeded("the message of a SASL negotiation is too large", bytes=size)
    try:
        status = Status(number)
    except ValueError:
        raise BadInput("not a message of a SASL negotiation", status=number) from None
    receiver.send(header + read_exactly(sender, size, deadline, account), remaining_s(deadline))
    if account is not None:
        account.release()
    return status


def read_exactly(peer: Peer, size: int, deadline: float, account: RequestAccount | None = None) -> bytes:
    """Return exactly ``size`` bytes, counted by ``account``; later bytes stay with ``peer``."""
    data = bytearray()
    while len(data) < size:
        chunk = peer.receive(remaining_s(deadline))
        if account is not None:
            account.grow(len(chunk))
        data += chunk
    peer.unread = bytes(data[size:]) + peer.unread
    return bytes(data[:size])


def begins_with_plain_frame(client: Peer, deadline: float, bytes_max: int, account: RequestAccount) -> bool:
    """Return whether the client's next frame holds a complete call. The frame stays unread."""
    (size,) = struct.unpack(">I", head := read_exactly(client, 4, deadline))
    if size > bytes_max:
        raise LimitExceeded("the message is too large", bytes=size, limit=bytes_max)
    frame = head + read_exactly(client, size, deadline, account)
    client.unread = frame + client.unread
    return _is_call(frame)


def _is_call(frame: bytes) -> bool:
    pieces = iter([frame])
    incoming = Incoming(lambda: next(pieces, b"") or _end(), Transport.FRAMED)
    try:
        read_fields(incoming.message(incoming.read_to_end()).body)
    except (BadInput, Disconnected):
        return False
    return True


def _end() -> bytes:
    raise Disconnected("the frame ends within its message")


def pass_through(
    client: Peer, server: Peer, *, idle_s: float, send_s: float, moved: Callable[[], None]
) -> None:
    """Pass bytes on in both directions until one side closes, or neither sends for ``idle_s``.

    ``moved`` is called for every piece.
    """
    others = {client.handle.fileno(): (client, server), server.handle.fileno(): (server, client)}
    poll = select.poll()
    for descriptor in others:
        poll.register(descriptor, select.POLLIN)
    while ready := _ready(client, server, poll, idle_s):
        moved()
        for descriptor in ready:
            sender, receiver = others[descriptor]
            try:
                receiver.send(sender.unread or sender.receive_now(), send_s)
            except Disconnected:
                return
            sender.unread = b""


def _ready(client: Peer, server: Peer, poll: select.poll, idle_s: float) -> list[int]:
    unread = [peer.handle.fileno() for peer in (client, server) if peer.has_unread()]
    return unread or [descriptor for descriptor, _ in poll.poll(idle_s * 1000)]
