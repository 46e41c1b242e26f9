"""A Hive cluster of two processes: the metastore, and a SQL engine that works through it.

The metastore is Hive's own server, unmodified, with Derby inside (or PostgreSQL beside it). The engine is Hive's compiler
and executor behind a socket (``java/tideline/stack/SqlServer.java``). Both share the directories of one ``Layout``, so a
cluster is one directory that can be looked into, copied and thrown away.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
from typing import TYPE_CHECKING

from dev.stack.downloads.jars import cache_dir
from dev.stack.errors import ComponentFailed, SqlFailed
from dev.stack.hive import settings
from dev.stack.hive.java_build import SCHEMA, harness_hash, hive_class_path
from dev.stack.hive.settings import ClusterSettings, Database, Layout
from dev.stack.hive.sql_session import Session
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, java
from dev.stack.process.ports import free_port


if TYPE_CHECKING:
    from pathlib import Path


HOST = "127.0.0.1"
ASK_TIMEOUT_MS = 5000


class HiveProcess(Component):
    """What metastore and engine have in common: Hive's class path, a configuration directory and the JVM's flags."""

    def __init__(self, name: str, layout: Layout, heap_mb: int, settings: ClusterSettings) -> None:
        super().__init__(name, layout.root)
        self.layout = layout
        self.settings = settings
        self.heap_mb = heap_mb
        self.conf = self.directory / f"conf-{name}"

    def environment(self) -> dict[str, str]:
        """The configuration is found by environment and not on the class path, which stays all jars."""
        return {
            "CLASSPATH": os.pathsep.join(map(str, [*hive_class_path(), *self.settings.jars])),
            "HIVE_CONF_DIR": str(self.conf),
            "METASTORE_CONF_DIR": str(self.conf),
        }

    def jvm(self, main: str, *arguments: str) -> list[str]:
        """A Java command in this process's directories."""
        return [
            str(java()),
            *FRUGAL,
            *OPENS,
            f"-Xmx{self.heap_mb}m",
            f"-Djava.io.tmpdir={self.layout.tmp}",
            f"-Dlog4j2.configurationFile={self.conf}/log4j2.properties",
            f"-Dderby.system.home={self.directory}",
            f"-Dderby.stream.error.file={self.directory}/derby.log",
            main,
            *arguments,
        ]


class Metastore(HiveProcess):
    """A Hive metastore with notification log, change manager and transactions."""

    def __init__(
        self,
        directory: Path,
        port: int | None = None,
        database: Database | None = None,
        settings: ClusterSettings | None = None,
        host: str = HOST,
    ) -> None:
        super().__init__("metastore", Layout(directory.resolve()), 512, settings or ClusterSettings())
        self.host = host
        self.port = port or free_port()
        self.database = database or Database.derby(self.directory / "db")

    @property
    def uri(self) -> str:
        """Its address for clients."""
        return f"thrift://{self.host}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration; make the database at the first start."""
        self.layout.create()
        properties = settings.metastore_properties(
            self.layout, self.host, self.port, self.database, self.settings
        )
        settings.write_conf(self.conf, properties, ("metastore-site.xml", "hive-site.xml"))
        done = self.directory / "schema.done"
        if not done.exists():
            self._create_schema()
            done.touch()

    def command(self) -> list[str]:
        """Hive's own server."""
        return self.jvm("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port))

    def ask(self) -> None:
        """It serves when it tells the notification log's last event id."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass  # thrift's own attempt would log every refusal
        self.last_event_id()

    def last_event_id(self) -> int:
        """The id of the newest event in the log; raises TimeoutError when the server does not answer."""
        from hmsclient.genthrift.hive_metastore import (
            ThriftHiveMetastore,  # a container that only serves has no client
        )
        from thrift.protocol import TBinaryProtocol
        from thrift.Thrift import TException
        from thrift.transport import TSocket, TTransport

        connection = TSocket.TSocket("127.0.0.1", self.port)
        connection.setTimeout(ASK_TIMEOUT_MS)
        transport = TTransport.TBufferedTransport(connection)
        try:
            transport.open()
            client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
            return int(client.get_current_notificationEventId().eventId)
        except (TException, EOFError) as error:
            raise TimeoutError(f"no answer to get_current_notificationEventId: {error}") from error
        finally:
            transport.close()

    def _create_schema(self) -> None:
        """Fill an empty database; a Derby one is made once per machine and then copied, which saves seconds."""
        database = self.directory / "db"
        if self.database != Database.derby(database):
            self._run_schema_init()
            return
        template = self.template()
        if not template.exists():
            self._make_template(template)
        shutil.rmtree(database, ignore_errors=True)
        shutil.copytree(template, database)

    @staticmethod
    def template() -> Path:
        """The Derby database that new metastores are copied from; made by the first."""
        return cache_dir() / "schema" / harness_hash()

    def _make_template(self, template: Path) -> None:
        template.parent.mkdir(parents=True, exist_ok=True)
        with template.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if template.exists():
                return
            database, part = self.directory / "db", template.with_suffix(".part")
            shutil.rmtree(database, ignore_errors=True)
            self._run_schema_init()
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(database, part)
            part.replace(template)

    def _run_schema_init(self) -> None:
        with self.log.open("ab") as log:
            done = subprocess.run(
                self.jvm("tideline.stack.SchemaInit", str(SCHEMA)),
                env=os.environ | self.environment(),
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise ComponentFailed(f"the metastore's schema could not be made. {self.log_tail()}")


class SqlEngine(HiveProcess):
    """Hive's compiler and executor for one metastore; one connection is one session."""

    def __init__(
        self,
        metastore: Metastore,
        port: int | None = None,
        host: str = HOST,
        metastore_uri: str | None = None,
    ) -> None:
        # Each statement leaves some of its job behind in the local job runner: 700 MB were full after some 480 jobs.
        super().__init__("engine", metastore.layout, 1500, metastore.settings)
        self.metastore_uri = metastore_uri or metastore.uri
        self.host = host
        self.port = port or free_port()

    @property
    def address(self) -> str:
        """``host:port`` for ``sql.Session``."""
        return f"{self.host}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration."""
        self.layout.create()
        properties = settings.engine_properties(self.layout, self.metastore_uri, self.settings)
        settings.write_conf(self.conf, properties, ("hive-site.xml",))

    def command(self) -> list[str]:
        """Our server around Hive's driver."""
        return self.jvm("tideline.stack.SqlServer", self.host, str(self.port))

    def ask(self) -> None:
        """It serves when it answers a query."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        try:
            with Session("127.0.0.1", self.port) as session:
                session.rows("select 1")
        except (SqlFailed, ComponentFailed) as error:  # a container's port opens before its server does
            raise TimeoutError(str(error)) from error
