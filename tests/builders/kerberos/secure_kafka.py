"""A Kafka broker that asks its clients for Kerberos, and the client that can log in there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from dev import kafka_client
from dev.stack.downloads.jars import cache_dir
from dev.stack.hive.kerberized import java_options
from dev.stack.process.java_runtime import extract_sasl_classes
from dev.stack.process.ports import free_port
from dev.stack.servers.kafka import Kafka
from dev.stack.servers.kerberos import REALM, Kdc


HOST: Final = "localhost"
MODULE: Final = "com.sun.security.auth.module.Krb5LoginModule"


class SecureKafka(Kafka):
    """A broker with a second listener that accepts only Kerberos; the plain one is for the test."""

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        self.secure_port = free_port()
        self._kdc = kdc
        super().__init__(directory)
        self._sasl = extract_sasl_classes(self.directory / "java")
        keytab = kdc.keytab_of(f"kafka/{HOST}")
        plain, secure = f"PLAINTEXT://127.0.0.1:{self.port}", f"SASL_PLAINTEXT://{HOST}:{self.secure_port}"
        self.extra = {
            "listeners": f"{plain},{secure},CONTROLLER://127.0.0.1:{self.controller_port}",
            "advertised.listeners": f"{plain},{secure}",
            "listener.security.protocol.map": (
                "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT"
            ),
            "sasl.enabled.mechanisms": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": (
                f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" '
                f'principal="kafka/{HOST}@{REALM}";'
            ),
        }

    @property
    def secure_bootstrap(self) -> str:
        """``bootstrap.servers`` for clients with Kerberos."""
        return f"{HOST}:{self.secure_port}"

    def environment(self) -> dict[str, str]:
        """The class path, and the realm."""
        plain = super().environment()
        return plain | {
            "CLASSPATH": os.pathsep.join((str(self._sasl), plain["CLASSPATH"])),
            "JAVA_TOOL_OPTIONS": java_options(self._kdc.config),
        }


def client_with_kerberos() -> Path:
    """Return the directory for ``PYTHONPATH`` of the client that the image has; the first call builds it."""
    prefix = cache_dir() / f"kafka-client-{kafka_client.LIBRDKAFKA.sha256[:12]}"
    done = prefix / "done"
    if not done.exists():
        shutil.rmtree(prefix, ignore_errors=True)
        kafka_client.build(prefix)
        done.touch()
    return prefix / "python"


def options(principal: str, keytab: Path) -> dict[str, str]:
    """Return settings of librdkafka for a login with a keytab."""
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal": principal,
        "sasl.kerberos.keytab": str(keytab),
    }


def with_client(cache: Path) -> dict[str, str]:
    """Return the variables of a process that uses the client, with its own cache of tickets."""
    path = os.pathsep.join((str(client_with_kerberos()), os.environ.get("PYTHONPATH", "")))
    return {"PYTHONPATH": path.rstrip(os.pathsep), "KRB5CCNAME": f"FILE:{cache}"}
