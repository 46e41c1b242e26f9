"""Hive 4.2 with Kerberos: metastores that require it, and SQL engines that log in with a ticket or a
delegation token.

All of them are Hive's own programs, in a realm of ``Kdc``. ::

    with Kdc(directory / "kdc") as kdc, KerberizedStack(directory, kdc) as stack: ...
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

from dev.stack.cluster import HiveCluster, Stack
from dev.stack.hive.servers import Metastore, SqlEngine
from dev.stack.hive.settings import ClusterSettings, write_conf
from dev.stack.process.java_runtime import SASL_OPTIONS, extract_sasl_classes
from dev.stack.servers.kerberos import REALM, Kdc
from handlers.metastore.client import Metastore as Client


HOST: Final = "localhost"
PRINCIPAL: Final = f"hive/{HOST}@{REALM}"
WRITER: Final = f"writer@{REALM}"
"""The principal as which the SQL engine logs in."""
ALL_PROTECTIONS: Final = "authentication,integrity,privacy"
_GROUPS: Final = "hive=hive;tideline=tideline;writer=writer"
"""Groups of the users, which this machine does not have."""


class KerberizedMetastore(Metastore):
    """The metastore.

    ``protection`` is Hadoop's setting: authentication, integrity, privacy, or several of them. Settings of
    Hadoop in ``extra`` are written to Hadoop's own file as well, because Hadoop reads no other.
    """

    def __init__(
        self,
        directory: Path,
        kdc: Kdc,
        protection: str = "authentication",
        extra: Mapping[str, str] | None = None,
    ) -> None:
        hadoop = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protection,
            "hadoop.user.group.static.mapping.overrides": _GROUPS,
            **{name: value for name, value in (extra or {}).items() if name.startswith("hadoop.")},
        }
        hive = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.keytab.file": str(kdc.keytab_of(f"hive/{HOST}")),
            "hive.metastore.kerberos.principal": PRINCIPAL,
            "hive.metastore.execute.setugi": "false",
            "yarn.resourcemanager.principal": PRINCIPAL,  # Hadoop reads no table without one
        }
        self._hadoop_conf = directory / "hadoop-conf"
        self._kdc = kdc
        jars = (self._hadoop_conf, extract_sasl_classes(directory / "java"))
        settings = ClusterSettings(extra={**hadoop, **hive, **(extra or {})}, jars=jars)
        super().__init__(directory, settings=settings)
        self._hadoop = hadoop

    def last_event_id(self) -> int:
        """Return the id of the newest event in the log. This process must be logged in for this metastore."""
        with closing(Client(self.uri)) as client:
            return client.current_event_id()

    @property
    def uri(self) -> str:
        """The address for clients. The principal contains the same host."""
        return f"thrift://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration; Hadoop reads its part from the class path."""
        super().prepare()
        write_conf(self._hadoop_conf, self._hadoop, ("core-site.xml",))

    def environment(self) -> dict[str, str]:
        """Return the variable that names the realm's configuration."""
        return super().environment() | {"JAVA_TOOL_OPTIONS": java_options(self._kdc.config)}

    def check_ready(self) -> None:
        """Check that it accepts connections; calls would need a login."""
        socket.create_connection((HOST, self.port), timeout=1).close()


class KerberizedEngine(SqlEngine):
    """The SQL engine. It logs in as ``WRITER``, or with a delegation token in a file of Hadoop's format.

    MapReduce runs only with a token: with Kerberos, Hadoop needs native libraries that no artifact contains.
    """

    def __init__(
        self,
        metastore: KerberizedMetastore,
        kdc: Kdc,
        *,
        metastore_uri: str | None = None,
        token_file: Path | None = None,
    ) -> None:
        super().__init__(metastore, metastore_uri=metastore_uri)
        self._kdc = kdc
        self._token_file = token_file
        if token_file is not None:
            self.settings = _without_kerberos(self.settings)

    def environment(self) -> dict[str, str]:
        """Return the variables that name the realm's configuration, and the ticket or the token."""
        credentials = (
            {"KRB5CCNAME": str(self._kdc.log_in(WRITER, self._kdc.keytab_of("writer")))}
            if self._token_file is None
            else {"HADOOP_TOKEN_FILE_LOCATION": str(self._token_file)}
        )
        options = {"JAVA_TOOL_OPTIONS": java_options(self._kdc.config)}
        return super().environment() | options | credentials


class KerberizedCluster(HiveCluster):
    """A cluster whose SQL engine logs in with the token in ``token_file``. Write this file before you use the
    engine.
    """

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        super().__init__(directory)
        self.token_file = directory / "token"
        self.metastore: KerberizedMetastore = KerberizedMetastore(directory, kdc, ALL_PROTECTIONS)
        self.engine = KerberizedEngine(self.metastore, kdc, token_file=self.token_file)


class KerberizedStack(Stack):
    """Kafka, a source and a target. Clients of both clusters must log in."""

    source: KerberizedCluster
    target: KerberizedCluster

    def __init__(self, directory: Path, kdc: Kdc) -> None:
        super().__init__(directory)
        self.source = KerberizedCluster(self.directory / "source", kdc)
        self.target = KerberizedCluster(self.directory / "target", kdc)


def _without_kerberos(settings: ClusterSettings) -> ClusterSettings:
    """Return the settings of a process that uses SASL without tickets, like a job on a cluster."""
    extra = {name: value for name, value in settings.extra.items() if not name.startswith("hadoop.security")}
    return replace(settings, extra=extra, jars=settings.jars[1:])


def java_options(config: Path) -> str:
    """Return the options of a Java program that uses a realm's configuration."""
    return " ".join([f"-Djava.security.krb5.conf={config}", *SASL_OPTIONS])
