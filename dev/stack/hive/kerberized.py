"""A Hive 4.2 metastore that demands Kerberos of its clients: Hive's own server, with a keytab of the realm of ``Kdc``."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

from dev.stack.hive.servers import Metastore
from dev.stack.hive.settings import ClusterSettings, write_conf
from dev.stack.process.kerberos_java import OPTIONS, extract_sasl_classes
from dev.stack.servers.kerberos import REALM


if TYPE_CHECKING:
    from pathlib import Path

    from dev.stack.servers.kerberos import Kdc


HOST: Final = "localhost"
PRINCIPAL: Final = f"hive/{HOST}@{REALM}"


class KerberizedMetastore(Metastore):
    """The metastore. ``protection`` is Hadoop's: authentication, integrity, privacy, or several of them."""

    def __init__(self, directory: Path, kdc: Kdc, protection: str = "authentication") -> None:
        hadoop = {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": protection,
            "hadoop.user.group.static.mapping.overrides": "hive=hive;tideline=tideline",
        }
        hive = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.keytab.file": str(kdc.export(f"hive/{HOST}")),
            "hive.metastore.kerberos.principal": PRINCIPAL,
            "hive.metastore.execute.setugi": "false",
        }
        self._hadoop_conf = directory / "hadoop-conf"
        self._krb5_conf = kdc.config
        jars = (self._hadoop_conf, extract_sasl_classes(directory / "java"))
        super().__init__(directory, settings=ClusterSettings(extra=hadoop | hive, jars=jars))
        self._hadoop = hadoop

    @property
    def uri(self) -> str:
        """The address for clients; the principal has the same host."""
        return f"thrift://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration; Hadoop reads its part from the class path."""
        super().prepare()
        write_conf(self._hadoop_conf, self._hadoop, ("core-site.xml",))

    def environment(self) -> dict[str, str]:
        """Name the realm's configuration."""
        options = [f"-Djava.security.krb5.conf={self._krb5_conf}", *OPTIONS]
        return super().environment() | {"JAVA_TOOL_OPTIONS": " ".join(options)}

    def check_ready(self) -> None:
        """Ready when it accepts connections; calls need a login."""
        socket.create_connection((HOST, self.port), timeout=1).close()
