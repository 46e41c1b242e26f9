"""Logins over SASL on real sockets: passwords, refusals, frames, and servers that require a login from a
client without one."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from daemon.config.fields import FileSecret
from daemon.endpoint.freshness.event_id_query import EventIdQuery
from daemon.endpoint.protocol.peer import Peer
from daemon.endpoint.protocol.sasl import read_exactly
from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.protocol.wire import Value, struct_value, text_value, write_struct
from daemon.endpoint.settings import EndpointSettings
from handlers.metastore.addresses import (
    Address,
    KerberosLogin,
    Login,
    PasswordLogin,
    login_at,
    merge_logins,
    use_logins,
)
from handlers.metastore.client import Metastore
from handlers.metastore.login.sasl import Frames
from state.errors import AmbiguousCall, ConfigError, LimitExceeded, LoginFailed, MetastoreUnavailable
from tests.builders.metastore.raw_metastore import TIMEOUT_S, Last, RawMetastore, reply


START, OK, BAD, ERROR, COMPLETE = 1, 2, 3, 4, 5
EVENT_ID = "get_current_notificationEventId"
LOGIN = PasswordLogin("tideline", "correct horse")


def newest(event_id: int, *, sequence: int = 0) -> bytes:
    value = Value(10, event_id.to_bytes(8))
    return reply(EVENT_ID, write_struct([(0, struct_value([(1, value)]))]), sequence=sequence)


class Passwords:
    """The server's side of a negotiation with PLAIN; ``answer`` overrides what it decides."""

    def __init__(self, answer: tuple[int, bytes] | None = None) -> None:
        self.answer = answer
        self.attempts = 0
        self.mechanism = b""

    def begin(self, peer: Peer) -> None:
        self.attempts += 1
        _, self.mechanism = receive(peer)
        _, response = receive(peer)
        accepted = response == f"\0{LOGIN.user}\0{LOGIN.password}".encode()
        status, payload = self.answer or ((COMPLETE, b"") if accepted else (ERROR, b"wrong password"))
        peer.send(struct.pack(">BI", status, len(payload)) + payload, TIMEOUT_S)
        if status != COMPLETE:
            raise EOFError


def receive(peer: Peer) -> tuple[int, bytes]:
    deadline = time.monotonic() + TIMEOUT_S
    status, size = struct.unpack(">BI", read_exactly(peer, 5, deadline))
    return status, read_exactly(peer, size, deadline)


@pytest.fixture(autouse=True)
def no_logins() -> Iterator[None]:
    yield
    use_logins({})


@pytest.fixture
def server() -> Passwords:
    return Passwords()


@pytest.fixture
def metastore(server: Passwords) -> Iterator[RawMetastore]:
    with RawMetastore(Transport.FRAMED, begin=server.begin) as made:
        version = write_struct([(0, text_value("4.2.0"))])
        made.will("getVersion", *[reply("getVersion", version, sequence=0)] * 3)
        yield made


def client_of(metastore: RawMetastore, login: Login | None) -> Metastore:
    use_logins({} if login is None else {("localhost", metastore.port): login})
    return Metastore(f"thrift://LOCALHOST:{metastore.port}", timeout_s=TIMEOUT_S)


def test_calls_are_answered_after_a_login_with_a_password_on_every_new_connection(
    metastore: RawMetastore, server: Passwords
) -> None:
    metastore.will(EVENT_ID, newest(5), Last(newest(6)), newest(7))
    with closing(client_of(metastore, LOGIN)) as client:
        assert [client.current_event_id() for _ in range(3)] == [5, 6, 7]
    assert (server.mechanism, server.attempts) == (b"PLAIN", 2)


def test_a_refused_password_is_tried_once_for_a_call_because_servers_lock_accounts(
    metastore: RawMetastore, server: Passwords
) -> None:
    with (
        closing(client_of(metastore, PasswordLogin("tideline", "wrong"))) as client,
        pytest.raises(LoginFailed) as failed,
    ):
        client.current_event_id()
    assert failed.value.context["reason"] == "wrong password"
    assert failed.value.context["user"] == "tideline"
    assert "restart" in failed.value.hint
    assert server.attempts == 1
    assert "wrong'" not in str(failed.value)


def test_a_refused_password_of_a_file_names_the_file(metastore: RawMetastore, server: Passwords) -> None:
    login = PasswordLogin("tideline", "wrong", FileSecret("wrong too", Path("/secrets/metastore")))
    with closing(client_of(metastore, login)) as client, pytest.raises(LoginFailed) as failed:
        client.current_event_id()
    assert failed.value.hint == "Check the user, and write the current password into /secrets/metastore."
    assert server.attempts == 1


def test_a_login_works_again_once_the_metastore_accepts_it(
    metastore: RawMetastore, server: Passwords
) -> None:
    server.answer = (BAD, b"locked")
    metastore.will(EVENT_ID, newest(5))
    with closing(client_of(metastore, LOGIN)) as client:
        with pytest.raises(LoginFailed):
            client.current_event_id()
        server.answer = None
        assert client.current_event_id() == 5


@pytest.mark.parametrize(
    "answer",
    [(OK, b"a challenge"), (9, b""), (COMPLETE, b"x" * (2 << 20))],
    ids=["a challenge after the password", "an unknown status", "a huge message"],
)
def test_a_server_that_does_not_follow_the_negotiation_is_reported(
    metastore: RawMetastore, server: Passwords, answer: tuple[int, bytes]
) -> None:
    server.answer = answer
    with closing(client_of(metastore, LOGIN)) as client, pytest.raises(LoginFailed):
        client.current_event_id()


def test_an_error_of_sasl_to_a_client_without_a_login_says_which_setting_is_missing() -> None:
    with (
        RawMetastore(begin=lambda peer: peer.send(struct.pack(">BI", ERROR, 0), TIMEOUT_S)) as metastore,
        closing(client_of(metastore, None)) as client,
        pytest.raises(LoginFailed, match="requires SASL") as failed,
    ):
        client.current_event_id()
    assert "'auth'" in failed.value.hint


def test_a_closed_first_connection_names_the_setting_among_the_possible_reasons() -> None:
    def close_after_request(peer: Peer) -> None:
        peer.receive(TIMEOUT_S)
        raise EOFError

    with (
        RawMetastore(begin=close_after_request) as metastore,
        closing(client_of(metastore, None)) as client,
        pytest.raises(MetastoreUnavailable, match="if the metastore requires SASL, set 'auth'") as failed,
    ):
        client.current_event_id()
    assert not isinstance(failed.value, LoginFailed)


def test_a_server_that_hangs_up_during_the_login_is_unavailable_and_not_refusing() -> None:
    def hang_up(peer: Peer) -> None:
        receive(peer)
        raise EOFError

    with (
        RawMetastore(begin=hang_up) as metastore,
        closing(client_of(metastore, LOGIN)) as client,
        pytest.raises(MetastoreUnavailable) as failed,
    ):
        client.current_event_id()
    assert not isinstance(failed.value, LoginFailed)


def test_the_query_for_the_newest_event_logs_in_on_its_own_connection(
    metastore: RawMetastore, server: Passwords
) -> None:
    metastore.will(EVENT_ID, newest(8, sequence=1), newest(9, sequence=1))
    settings = EndpointSettings(metastores=(Address("127.0.0.1", metastore.port),), login=LOGIN)
    with closing(EventIdQuery(settings)) as query:
        for expected in (8, 9):
            query.send()
            assert query.receive() == expected
    assert server.attempts == 1


def test_a_refused_login_of_the_query_is_a_failure_of_the_metastore(
    metastore: RawMetastore, server: Passwords
) -> None:
    server.answer = (BAD, b"no")
    settings = EndpointSettings(metastores=(Address("127.0.0.1", metastore.port),), login=LOGIN)
    with closing(EventIdQuery(settings)) as query, pytest.raises(LoginFailed):
        query.send()


def test_clusters_that_share_a_server_must_agree_on_its_login() -> None:
    shared, own = ("a", 1), ("b", 2)
    assert merge_logins({"one": {shared: LOGIN}, "two": {shared: LOGIN, own: None}}) == {shared: LOGIN}
    with pytest.raises(ConfigError, match="two different logins"):
        merge_logins({"one": {shared: LOGIN}, "two": {shared: None}})


def test_the_principal_of_a_server_has_its_host_in_lower_case() -> None:
    login = KerberosLogin("hive/_HOST@EXAMPLE.COM")
    assert login.service_at("HMS-1.example.com") == "hive/hms-1.example.com@EXAMPLE.COM"
    assert KerberosLogin("hive/fixed@EXAMPLE.COM").service_at("other") == "hive/fixed@EXAMPLE.COM"


def test_a_password_is_not_shown_by_its_login() -> None:
    use_logins({("host", 1): LOGIN})
    assert LOGIN.password not in repr(login_at("HOST", 1))


class Reversed:
    """Reverses messages as a stand-in for encryption, and recognizes what was changed on its way."""

    def wrap(self, message: bytes) -> bytes:
        return b"!" + message[::-1]

    def unwrap(self, token: bytes) -> bytes:
        if token[:1] != b"!":
            raise LoginFailed("an answer has no valid signature")
        return token[:0:-1]


class Recorded:
    """A channel that returns ``incoming`` in pieces of at most three bytes."""

    def __init__(self, incoming: bytes = b"", limit: int = 100) -> None:
        self.incoming, self.written, self.limit = incoming, b"", limit

    def read(self, size: int) -> bytes:
        chunk, self.incoming = self.incoming[: min(size, 3)], self.incoming[min(size, 3) :]
        if not chunk:
            raise EOFError
        return chunk

    def write(self, data: bytes) -> None:
        self.written += data


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def read_all(frames: Frames, size: int = 2) -> bytes:
    data = b""
    while True:
        try:
            data += frames.read(size)
        except EOFError:
            return data


@pytest.mark.parametrize("protection", [None, Reversed()], ids=["plain", "protected"])
def test_frames_carry_messages_in_both_directions_whatever_the_sizes_of_reads(
    protection: Reversed | None,
) -> None:
    messages = [b"one", b"", b"a longer message"]
    sent = Recorded()
    for message in messages:
        Frames(sent, protection).write(message)
    for size in (1, 2, 5, 1000):
        assert read_all(Frames(Recorded(sent.written), protection), size) == b"".join(messages)


def test_a_changed_answer_breaks_the_connection_before_anything_of_it_is_read() -> None:
    frames = Frames(Recorded(frame(b"?changed")), Reversed())
    with pytest.raises(Exception, match="no valid signature"):
        frames.read(10)


def test_a_protected_answer_above_the_limit_is_not_read() -> None:
    channel = Recorded(frame(b"!" + b"x" * 200), limit=100)
    with pytest.raises(Exception, match="too large"):
        Frames(channel, Reversed()).read(10)


def test_an_answer_above_the_limit_is_refused_behind_a_login_too(metastore: RawMetastore) -> None:
    use_logins({("127.0.0.1", metastore.port): LOGIN})
    metastore.will(
        EVENT_ID, reply(EVENT_ID, b"\x0b\x00\x01\x00\x20\x00\x00" + b"x" * (1 << 21) + b"\x00", sequence=0)
    )
    with (
        closing(Metastore(f"thrift://127.0.0.1:{metastore.port}", reply_bytes_max=1 << 20)) as client,
        pytest.raises(LimitExceeded),
    ):
        client.current_event_id()


def test_a_change_whose_answer_is_lost_after_a_login_is_ambiguous(metastore: RawMetastore) -> None:
    metastore.will("drop_database", Last(b""))
    with closing(client_of(metastore, LOGIN)) as client, pytest.raises(AmbiguousCall):
        client.drop_database("d")
