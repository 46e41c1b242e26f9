"""A broker with Kafka's standard authorizer, whose users log in with a password over TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dev.stack.process.ports import free_port
from dev.stack.servers.kafka import Kafka
from tests.builders.certificates import a_certificate


HOST: Final = "localhost"
MECHANISM: Final = "SCRAM-SHA-512"
PASSWORDS: Final = {"tideline": "tideline-secret", "admin": "admin-secret"}
_KEYSTORE_PASSWORD: Final = "keystore-secret"  # noqa: S105 - of a certificate of this test


class AuthorizingKafka(Kafka):
    """A broker whose plain listener is that of a super user; the other one asks for a password.

    Its users are "tideline", without rights, and "admin", a super user. Clients of the listener for users
    trust ``authority``.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.user_port = free_port()
        directory.mkdir(parents=True, exist_ok=True)
        certificate = a_certificate(directory, "broker")
        self.authority = certificate.certificate
        keystore = certificate.keystore(directory / "broker.p12", _KEYSTORE_PASSWORD)
        plain, users = f"PLAINTEXT://127.0.0.1:{self.port}", f"SASL_SSL://{HOST}:{self.user_port}"
        scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
        self.extra = {
            "listeners": f"{plain},{users},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"{plain},{users}",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "sasl.enabled.mechanisms": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": scram,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": str(keystore),
            "ssl.keystore.password": _KEYSTORE_PASSWORD,
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }

    @property
    def user_bootstrap(self) -> str:
        """``bootstrap.servers`` for clients with a password."""
        return f"{HOST}:{self.user_port}"

    def format_options(self) -> list[str]:
        """The users."""
        users = (f"{MECHANISM}=[name={name},password={each}]" for name, each in PASSWORDS.items())
        return [word for user in users for word in ("--add-scram", user)]
