"""Delegation tokens: the calls of Hive's clients for them, and files with which Hadoop's programs log in."""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Final

from daemon.endpoint.protocol.streams import Transport
from daemon.endpoint.settings import EndpointSettings
from daemon.endpoint.upstream import PeerChannel, Upstream
from handlers.metastore.addresses import Address
from handlers.metastore.calls import PlainCall
from handlers.metastore.client import Metastore
from handlers.metastore.login.sasl import negotiate
from state.errors import LoginFailed


TIMEOUT_S: Final = 30.0
_SERVICE: Final = "null/default"
"""Hadoop names neither a protocol nor a server."""
_FIELD: Final = re.compile(r'([\w-]+)="?([^",]*)"?')

_GET: Final = PlainCall("get_delegation_token", str, changes=True)
_RENEW: Final = PlainCall("renew_delegation_token", int, changes=True)
_CANCEL: Final = PlainCall("cancel_delegation_token", NoneType, changes=True)


class TokenClient(Metastore):
    """A client that obtains tokens, renews and cancels them; Tideline itself uses keytabs."""

    def get_token(self, owner: str, renewer: str) -> str:
        """Return a token of ``owner``, which ``renewer`` may renew, in Hadoop's text form."""
        return self._invoke(_GET, owner, renewer)

    def renew_token(self, token: str) -> int:
        """Renew a token and return until when it is valid, in Unix milliseconds."""
        return self._invoke(_RENEW, token)

    def cancel_token(self, token: str) -> None:
        """Cancel a token."""
        self._invoke(_CANCEL, token)


def write_token_file(path: Path, token: str) -> Path:
    """Write a file for ``HADOOP_TOKEN_FILE_LOCATION``: one token, no secrets."""
    alias = b"hive"
    path.write_bytes(b"HDTS\x00\x01" + bytes([len(alias)]) + alias + decode_token(token) + b"\x00")
    return path


def decode_token(token: str) -> bytes:
    """Return a token's binary form: identifier, password, kind and service, each after its length."""
    return base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))


@dataclass(frozen=True)
class TokenLogin:
    """What a token's holder sends: the identifier as the user, and the password."""

    user: str
    password: str

    @staticmethod
    def of(token: str) -> TokenLogin:
        """Take a token apart."""
        data = decode_token(token)
        size = data[0]  # a number below 128 is one byte
        password = data[2 + size : 2 + size + data[1 + size]]
        return TokenLogin(base64.b64encode(data[1 : 1 + size]).decode(), base64.b64encode(password).decode())


class DigestMd5:
    """The mechanism DIGEST-MD5 (RFC 2831) with a token (``negotiation.Mechanism``), as Hadoop uses it: only
    to authenticate."""

    name: Final = "DIGEST-MD5"
    hint: Final = "The token has expired or was cancelled."
    protection: Final = ("auth", None)

    def __init__(self, login: TokenLogin) -> None:
        self._login = login
        self._proof: bytes | None = None
        """What the server must send to prove that it knows the password."""
        self.is_complete = False

    def respond(self, challenge: bytes) -> bytes:
        """Return the response to the challenge, then check the server's proof."""
        if not challenge:
            return b""  # the server speaks first
        if self._proof is not None:
            assert challenge == self._proof, "the server does not know the password"
            self.is_complete = True
            return b""
        found = dict(_FIELD.findall(challenge.decode()))
        nonce, own = found["nonce"], secrets.token_hex(16)
        secret = _hash(f"{self._login.user}:{found['realm']}:{self._login.password}")
        key = hashlib.md5(secret + f":{nonce}:{own}".encode()).hexdigest()  # noqa: S324 - the mechanism's

        def prove(call: str) -> str:
            return _hash(f"{key}:{nonce}:00000001:{own}:auth:{_hash(f'{call}:{_SERVICE}').hex()}").hex()

        self._proof = f"rspauth={prove('')}".encode()
        quoted = {"username": self._login.user, "realm": found["realm"], "nonce": nonce, "cnonce": own}
        plain = {"nc": "00000001", "qop": "auth", "response": prove("AUTHENTICATE"), "charset": "utf-8"}
        fields = [f'{key}="{value}"' for key, value in (quoted | {"digest-uri": _SERVICE}).items()]
        return ",".join([*fields, *(f"{key}={value}" for key, value in plain.items())]).encode()


def _hash(text: str) -> bytes:
    return hashlib.md5(text.encode()).digest()  # noqa: S324 - the mechanism's


def connect_with_token(address: Address, token: str) -> Upstream:
    """Open a connection of a token's holder for requests as bytes; raise LoginFailed."""
    upstream = Upstream(EndpointSettings(metastores=(address,)), Transport.FRAMED)
    try:
        negotiate(PeerChannel(upstream.peer, TIMEOUT_S), DigestMd5(TokenLogin.of(token)))
    except LoginFailed:
        upstream.peer.close()
        raise
    return upstream
