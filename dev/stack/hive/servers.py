"""A Hive cluster of two processes: the metastore, and a SQL engine that uses it.

The metastore is Hive's own server, unmodified, with embedded Derby or an external PostgreSQL. The engine is
Hive's compiler and executor behind a socket (``java/tideline/stack/SqlServer.java``). Both share the
directories of one ``Layout``, so a cluster is a single directory that can be inspected, copied and deleted.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import subprocess
from pathlib import Path

from dev.stack.downloads.jars import cache_dir, fetch, find_missing
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.errors import ComponentFailed, SqlFailed
from dev.stack.hive import settings
from dev.stack.hive.java_build import (
    HIVE_3,
    NEWEST,
    build_harness,
    find_schema,
    hash_harness,
    list_hive_jars,
    read_hive_lock,
)
from dev.stack.hive.settings import ClusterSettings, Database, Layout
from dev.stack.hive.sql_session import Session
from dev.stack.process.component import Component
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java
from dev.stack.process.ports import free_port


HOST = "127.0.0.1"
READY_TIMEOUT_MS = 5000


class HiveProcess(Component):
    """Common parts of metastore and engine: Hive's class path, a configuration directory and JVM options."""

    def __init__(self, name: str, layout: Layout, heap_mb: int, settings: ClusterSettings) -> None:
        super().__init__(name, layout.root)
        self.layout = layout
        self.settings = settings
        self.heap_mb = heap_mb
        self.conf = self.directory / f"conf-{name}"

    def environment(self) -> dict[str, str]:
        """Return the variables with the configuration's path. Only Hive 3.1 also reads the class path."""
        configured = [self.conf] if self.settings.hive == HIVE_3 else []
        jars = [*configured, *list_hive_jars(self.settings.hive), *self.settings.jars]
        return {
            "CLASSPATH": os.pathsep.join(map(str, jars)),
            "HIVE_CONF_DIR": str(self.conf),
            "METASTORE_CONF_DIR": str(self.conf),
        }

    def jvm(self, main: str, *arguments: str) -> list[str]:
        """Return a Java command that writes only to the directories of this process."""
        return [
            str(find_java()),
            *FRUGAL,
            *OPENS,
            f"-Xmx{self.heap_mb}m",
            f"-Djava.io.tmpdir={self.layout.tmp}",
            f"-Dlog4j2.configurationFile={self.conf}/log4j2.properties",
            f"-Dderby.system.home={self.directory}",
            f"-Dderby.stream.error.file={self.directory}/derby.log",
            # By default, Derby looks for deadlocks after 20 s. The metastore repeats the call of the victim,
            # even if the client was killed meanwhile.
            "-Dderby.locks.deadlockTimeout=1",
            *self._launcher(),
            main,
            *arguments,
        ]

    def _launcher(self) -> list[str]:
        """Return the launcher for Hive 3.1, which needs a kind of class loader that Java itself no longer
        uses.
        """
        if self.settings.hive != HIVE_3:
            return []
        return ["-cp", str(build_harness(hive=HIVE_3)), "tideline.stack.Launcher"]


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
        """The address for clients."""
        return f"thrift://{self.host}:{self.port}"

    def prepare(self) -> None:
        """Fetch missing jars and write the configuration; create the database at the first start."""
        jars = read_hive_lock(self.settings.hive)
        if find_missing(jars):
            fetch(jars, find_repository())
        self.layout.create()
        properties = settings.build_metastore_properties(
            self.layout, self.host, self.port, self.database, self.settings
        )
        settings.write_conf(self.conf, properties, ("metastore-site.xml", "hive-site.xml"))
        done = self.directory / "schema.done"
        if not done.exists():
            self._create_schema()
            done.touch()

    def command(self) -> list[str]:
        """The command of Hive's own server."""
        return self.jvm("org.apache.hadoop.hive.metastore.HiveMetaStore", "-p", str(self.port))

    def check_ready(self) -> None:
        """Check that it returns the last event id of the notification log."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass  # Thrift itself would log every refused connection
        self.last_event_id()

    def last_event_id(self) -> int:
        """Return the id of the newest event in the log; raise TimeoutError if the server does not respond."""
        from hmsclient.genthrift.hive_metastore import (
            ThriftHiveMetastore,  # missing in the container that runs the server
        )
        from thrift.protocol import TBinaryProtocol
        from thrift.Thrift import TException
        from thrift.transport import TSocket, TTransport

        connection = TSocket.TSocket("127.0.0.1", self.port)
        connection.setTimeout(READY_TIMEOUT_MS)
        transport = TTransport.TBufferedTransport(connection)
        try:
            transport.open()
            client = ThriftHiveMetastore.Client(TBinaryProtocol.TBinaryProtocol(transport))
            return int(client.get_current_notificationEventId().eventId)
        except (TException, EOFError) as error:
            raise TimeoutError(f"get_current_notificationEventId failed: {error}") from error
        finally:
            transport.close()

    def _create_schema(self) -> None:
        """Create the schema. A Derby database is created once per machine and then copied, which saves
        seconds.
        """
        database = self.directory / "db"
        if self.database != Database.derby(database):
            self._run_schema_init()
            return
        template = self.template_path(self.settings.hive)
        if not template.exists():
            self._make_template(template)
        shutil.rmtree(database, ignore_errors=True)
        shutil.copytree(template, database)

    @staticmethod
    def template_path(hive: str = NEWEST) -> Path:
        """Return the path of the Derby database that new metastores copy; the first metastore creates it."""
        return cache_dir() / "schema" / f"{hash_harness(hive)}-{hive}"

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
        script = find_schema(self.settings.hive, self.database.kind)
        with self.log.open("ab") as log:
            done = subprocess.run(
                self.jvm("tideline.stack.SchemaInit", str(script)),
                env=os.environ | self.environment(),
                cwd=self.directory,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if done.returncode != 0:
            raise ComponentFailed(f"creating the schema of the metastore failed. {self.log_tail()}")


class SqlEngine(HiveProcess):
    """Hive's compiler and executor for one metastore; one connection is one session."""

    def __init__(
        self,
        metastore: Metastore,
        port: int | None = None,
        host: str = HOST,
        metastore_uri: str | None = None,
    ) -> None:
        # The local job runner keeps some memory for each statement, more for a failed one
        # (``mapreduce.task.io.sort.mb``).
        super().__init__("engine", metastore.layout, 1500, metastore.settings)
        self.metastore_uri = metastore_uri or metastore.uri
        self.host = host
        self.port = port or free_port()

    @property
    def address(self) -> str:
        """``host:port`` for ``sql_session.Session``."""
        return f"{self.host}:{self.port}"

    def prepare(self) -> None:
        """Write the configuration."""
        self.layout.create()
        properties = settings.build_engine_properties(self.layout, self.metastore_uri, self.settings)
        settings.write_conf(self.conf, properties, ("hive-site.xml",))

    def command(self) -> list[str]:
        """The command of this project's server, which runs Hive's driver."""
        return self.jvm("tideline.stack.SqlServer", self.host, str(self.port))

    def check_ready(self) -> None:
        """Check that it runs a query."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=1):
            pass
        try:
            with Session("127.0.0.1", self.port) as session:
                session.rows("select 1")
        except (SqlFailed, ComponentFailed) as error:  # the port of a container opens before its server does
            raise TimeoutError(str(error)) from error
