"""Metastores of Hive 2.3 and 3.1 for tests of the client, each a process with embedded Derby and without a
SQL engine.

Their jars are pinned in separate locks (``hive2.lock``, ``hive3.lock``), which only their tests fetch. Both
run on the Java that runs Hive 4. In Hive's test mode (``hive.in.test``), they create the transaction tables,
which the object mapping lacks, so no schema script is needed. ``ClusterSettings(hive="3.1")`` is a complete
cluster of Hive 3.1, with SQL and compactions.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path

from hmsclient.genthrift.hive_metastore import ThriftHiveMetastore
from thrift.protocol import TBinaryProtocol
from thrift.Thrift import TException
from thrift.transport import TSocket, TTransport

from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.hive import settings
from dev.stack.hive.settings import Database, Properties
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from dev.stack.process.ports import free_port


HOST = "127.0.0.1"
LOCKS = {"2.3": "hive2", "3.1": "hive3"}
_METASTORE = "org.apache.hadoop.hive.metastore"
_LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"


class OldMetastore(Component):
    """A metastore of Hive "2.3" or "3.1", with or without its notification log.

    Derby stores events of at most 32 KB, so only without the log can a client add partitions in batches of
    thousands.
    """

    def __init__(self, directory: Path, version: str, *, has_log: bool = True) -> None:
        super().__init__(f"hive-{version}", directory)
        self.has_log = has_log
        self.jars = read_lock(LOCKS[version])
        self.port = free_port()
        self.conf = self.directory / "conf"

    @property
    def uri(self) -> str:
        """The address for clients."""
        return f"thrift://{HOST}:{self.port}"

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration."""
        if find_missing(self.jars):
            fetch(self.jars, find_repository())
        settings.write_conf(self.conf, self.properties(), ("hive-site.xml", "metastore-site.xml"))

    def properties(self) -> Properties:
        """Return every setting under the names of both Hive versions, each of which ignores the other's."""
        database = Database.derby(self.directory / "db")
        both = {
            "schema.verification": "false",
            "event.db.notification.api.auth": "false",
            "warehouse.dir": f"file:{self.directory}/warehouse",
            "client.capability.check": "false",  # test mode would require a capability that no client has
            # Hive's own class is in the jar of its compiler, and these tests use no partition filters
            "expression.proxy": f"{_METASTORE}.DefaultPartitionExpressionProxy",
        }
        if self.has_log:
            both["transactional.event.listeners"] = _LISTENER
        named = {
            f"{prefix}.{key}": value
            for key, value in both.items()
            for prefix in ("metastore", "hive.metastore")
        }
        return named | {
            "javax.jdo.option.ConnectionURL": database.url,
            "javax.jdo.option.ConnectionDriverName": database.driver,
            "datanucleus.schema.autoCreateAll": "true",
            "datanucleus.connectionPoolingType": "HikariCP",
            "hive.in.test": "true",
            "metastore.in.test": "true",
            "hive.async.log.enabled": "false",
            "metastore.task.threads.always": f"{_METASTORE}.events.EventCleanerTask",
        }

    def command(self) -> list[str]:
        """The command of Hive's own server, which finds its configuration on the class path."""
        paths = os.pathsep.join(map(str, [self.conf, *locate_jars(self.jars)]))
        return [
            str(find_java()),
            *FRUGAL,
            *OPENS,
            "-Xmx400m",
            f"-Dlog4j2.configurationFile={self.conf}/log4j2.properties",
            f"-Dderby.stream.error.file={self.directory}/derby.log",
            "-cp",
            paths,
            f"{_METASTORE}.HiveMetaStore",
            "-p",
            str(self.port),
        ]

    def check_ready(self) -> None:
        """Check that it returns the last event id of the notification log."""
        with socket.create_connection((HOST, self.port), timeout=1):
            pass  # Thrift itself would log every refused connection
        transport = TTransport.TBufferedTransport(TSocket.TSocket(HOST, self.port))
        try:
            transport.open()
            client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
            client.get_current_notificationEventId()
        except (TException, EOFError) as error:
            raise TimeoutError(f"get_current_notificationEventId failed: {error}") from error
        finally:
            transport.close()
