"""A broker with Kafka's standard authorizer, whose users log in with a password."""

from __future__ import annotations

from pathlib import Path

from dev.stack.process.ports import free_port
from dev.stack.servers.kafka import Kafka


class AuthorizingKafka(Kafka):
    """A broker whose plain listener is that of a super user; the other one asks for a password.

    Its users are "tideline", without rights, and "admin", a super user.
    """

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.user_port = free_port()
        plain, users = f"PLAINTEXT://127.0.0.1:{self.port}", f"SASL_PLAINTEXT://127.0.0.1:{self.user_port}"
        self.extra = {
            "listeners": f"{plain},{users},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"{plain},{users}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "PLAIN",
            "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
                "org.apache.kafka.common.security.plain.PlainLoginModule required "
                'user_tideline="tideline-secret" user_admin="admin-secret";'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS;User:admin",
        }
