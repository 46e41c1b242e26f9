"""The Kerberos mechanism without a KDC: hints for each failure, the choice of a protection, and a missing
library."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

import pytest

from handlers.metastore.addresses import KerberosLogin, Protection
from handlers.metastore.login import gssapi, mechanisms
from handlers.metastore.login.gssapi import GssapiError
from handlers.metastore.login.mechanisms import Kerberos, authenticate
from state.errors import LoginFailed


TICKET = KerberosLogin("hive/_HOST@R")
PROTOCOL = -1765328384


class Scripted:
    """A security context that is established at once, or fails; wrapped messages are not changed."""

    failure: GssapiError | None = None
    encrypts = True

    def __init__(self, service: str, client: str | None, store: Mapping[str, str]) -> None:
        self.service, self.client, self.store = service, client, store
        self.is_established = False

    def step(self, token: bytes) -> bytes:
        if self.failure is not None:
            raise self.failure
        self.is_established = True
        return token

    def wrap(self, message: bytes, *, encrypted: bool) -> bytes:
        return (b"E" if encrypted else b"S") + message

    def unwrap(self, token: bytes) -> tuple[bytes, bool]:
        return token[1:], token[:1] == b"E"


@pytest.fixture
def context(monkeypatch: pytest.MonkeyPatch) -> type[Scripted]:
    made = type("Context", (Scripted,), {})
    monkeypatch.setattr(mechanisms, "Context", made)
    return made


@pytest.mark.parametrize(
    ("code", "hint"),
    [
        (6, "does not know the client's principal"),
        (7, "does not know the metastore's principal"),
        (18, "locked or disabled"),
        (24, "export the keytab again"),
        (32, "has expired"),
        (37, "synchronize them"),
        (156, "krb5.conf and the network"),
        (60, "Check the ticket or the keytab"),
    ],
)
def test_the_hint_follows_from_the_error_of_kerberos(context: type[Scripted], code: int, hint: str) -> None:
    context.failure = GssapiError("the library's words", PROTOCOL + code)
    with pytest.raises(LoginFailed) as failed:
        Kerberos(TICKET, "host").respond(b"")
    assert hint in failed.value.hint
    assert failed.value.context["reason"] == "the library's words"


def test_missing_credentials_are_a_ticket_or_a_key_as_configured(
    context: type[Scripted], tmp_path: Path
) -> None:
    context.failure = GssapiError("none", 1, lacks_credentials=True)
    (keytab := tmp_path / "keytab").touch()
    for login, hint in (
        (TICKET, "run kinit"),
        (KerberosLogin("hive/_HOST@R", "t@R", keytab), "has a key of 'client_principal'"),
    ):
        with pytest.raises(LoginFailed) as failed:
            Kerberos(login, "host").respond(b"")
        assert hint in failed.value.hint


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(
    ("minimum", "offer", "choice"),
    [
        ("auth", 7, 1),
        ("auth", 6, 2),
        ("auth", 4, 4),
        ("auth-int", 7, 2),
        ("auth-int", 5, 4),
        ("auth-conf", 7, 4),
    ],
)
def test_the_weakest_protection_is_chosen_that_both_sides_accept(
    minimum: Protection, offer: int, choice: int
) -> None:
    mechanism = Kerberos(KerberosLogin("hive/_HOST@R", protection=minimum), "host")
    mechanism.respond(b"")
    response = mechanism.respond(b"S" + bytes([offer, 0, 0, 0]))
    assert response[:2] == b"S" + bytes([choice])
    assert mechanism.is_complete
    assert (mechanism.protection[1] is None) == (choice == 1)


@pytest.mark.usefixtures("context")
@pytest.mark.parametrize(("minimum", "offer"), [("auth", 0), ("auth-int", 1), ("auth-conf", 3)])
def test_an_offer_below_the_required_protection_is_not_accepted(minimum: Protection, offer: int) -> None:
    mechanism = Kerberos(KerberosLogin("hive/_HOST@R", protection=minimum), "host")
    mechanism.respond(b"")
    with pytest.raises(LoginFailed, match="does not offer") as failed:
        mechanism.respond(b"S" + bytes([offer, 0, 0, 0]))
    assert failed.value.context["required"] == minimum


@pytest.mark.usefixtures("context")
def test_an_answer_that_is_only_signed_is_refused_after_encryption_was_agreed_on() -> None:
    mechanism = Kerberos(KerberosLogin("hive/_HOST@R", protection="auth-conf"), "host")
    mechanism.respond(b"")
    mechanism.respond(b"S\x04\x00\x00\x00")
    assert mechanism.wrap(b"call") == b"Ecall"
    assert mechanism.unwrap(b"Eanswer") == b"answer"
    with pytest.raises(LoginFailed, match="unencrypted"):
        mechanism.unwrap(b"Sanswer")


def test_tickets_are_discarded_when_the_metastore_refuses_them_and_kept_when_the_kdc_fails(
    context: type[Scripted], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    discarded: list[str] = []
    monkeypatch.setattr(mechanisms, "destroy_ticket_cache", discarded.append)
    (keytab := tmp_path / "keytab").touch()
    login = KerberosLogin("hive/_HOST@R", "t@R", keytab)
    context.failure = GssapiError("no KDC", PROTOCOL + 156)
    with pytest.raises(LoginFailed, match="no KDC"):
        authenticate(Refusing(), login, "host")
    assert discarded == []
    context.failure = None
    with pytest.raises(LoginFailed, match="refused the login"):
        authenticate(Refusing(), login, "host")
    (cache,) = discarded
    assert cache.startswith("MEMORY:")


class Refusing:
    """A metastore that answers every login with an error."""

    limit = 0

    def __init__(self) -> None:
        self.answer = b"\x04\x00\x00\x00\x00"

    def read(self, size: int) -> bytes:
        chunk, self.answer = self.answer[:size], self.answer[size:]
        return chunk

    def write(self, data: bytes) -> None:
        """Nothing."""


@pytest.mark.usefixtures("context")
def test_a_keytab_that_cannot_be_read_is_reported_before_the_library_is_asked() -> None:
    with pytest.raises(LoginFailed, match="keytab cannot be read"):
        Kerberos(KerberosLogin("hive/_HOST@R", keytab=Path("/missing")), "host")


def test_a_missing_library_is_reported_with_the_packages_that_contain_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", fail)
    gssapi._library.cache_clear()
    with pytest.raises(LoginFailed, match="Kerberos library") as failed:
        Kerberos(TICKET, "host")
    assert "libgssapi-krb5-2" in failed.value.hint


def test_an_expired_ticket_of_a_keytab_was_not_renewed(context: type[Scripted], tmp_path: Path) -> None:
    context.failure = GssapiError("Ticket expired", PROTOCOL + 32)
    (keytab := tmp_path / "keytab").touch()
    with pytest.raises(LoginFailed) as failed:
        Kerberos(KerberosLogin("hive/_HOST@R", "t@R", keytab), "host").respond(b"")
    assert "could not be renewed" in failed.value.hint
