"""The settings of one Hive cluster as data, for the metastore and for the SQL engine.

There are two files, because a metastore that sees ``hive.metastore.uris`` would become a client of itself.
Both contain the same values for shared settings. If Hive has two names for a setting (MetastoreConf and
HiveConf), both are set: the threads of the compactor read the second name, and if the values differ, each
closes the database connections of the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.sax.saxutils import escape

from dev.stack.hive.java_build import HIVE_3, NEWEST


Properties = dict[str, str]

_SERVICES = "org.apache.hadoop.hive.metastore.txn.service"
# Hive's default list contains a class of Iceberg, which is not installed; one missing class stops all
# housekeeping.
HOUSEKEEPING = ",".join(
    f"{_SERVICES}.{task}"
    for task in ("AcidHouseKeeperService", "AcidTxnCleanerService", "CompactionHouseKeeperService")
)
# Two MapReduce jobs in one process interfere with each other: see the class.
ONE_JOB_AT_A_TIME = "tideline.stack.OneJobAtATime"
_LISTENER = "org.apache.hive.hcatalog.listener.DbNotificationListener"
# Otherwise, a drop and a call of a transaction can block each other: see the class.
DROPS_IN_TURN = {
    "metastore.transactional.event.listeners": f"tideline.stack.DropsInTurn$Before,{_LISTENER}",
    "metastore.event.listeners": "tideline.stack.DropsInTurn$After",
}
_MESSAGES = "org.apache.hadoop.hive.metastore.messaging.json"
ENCODERS = {"gzip": f"{_MESSAGES}.gzip.GzipJSONMessageEncoder", "json": f"{_MESSAGES}.JSONMessageEncoder"}
_TXN_3 = "org.apache.hadoop.hive.metastore.txn"
# Hive 4.0 cannot use the listener of 4.2 as it is, and has this setting under another name. Hive 3.1 has its
# housekeeping in another package, no gzip in the notification log, and more users of its two connection
# pools.
_OF_VERSION: Mapping[str, Mapping[str, str]] = {
    HIVE_3: {
        "metastore.event.message.factory": f"{_MESSAGES}.JSONMessageFactory",
        "hive.metastore.event.db.notification.api.auth": "false",
        "metastore.task.threads.remote": ",".join(
            f"{_TXN_3}.{task}"
            for task in ("AcidHouseKeeperService", "AcidCompactionHistoryService", "AcidWriteSetService")
        ),
        "datanucleus.connectionPool.maxPoolSize": "10",
    },
    "4.0": {
        "metastore.transactional.event.listeners": "tideline.stack.Hive40Listener",
        "metastore.metastore.event.db.notification.api.auth": "false",
    },
}


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a metastore: embedded Derby by default, or PostgreSQL through a URL."""

    url: str
    driver: str = "org.apache.derby.jdbc.EmbeddedDriver"
    user: str = "APP"
    password: str = "mine"  # noqa: S105 (Derby's own default; the database is embedded)

    @property
    def kind(self) -> str:
        """``derby`` or ``postgres``, as in the names of Hive's scripts."""
        return "derby" if self.url.startswith("jdbc:derby:") else "postgres"

    @classmethod
    def derby(cls, directory: Path) -> Database:
        """Return an embedded database, which only one process at a time can use."""
        return cls(f"jdbc:derby:;databaseName={directory};create=true")

    @classmethod
    def postgres(cls, url: str, user: str, password: str) -> Database:
        """Return a PostgreSQL database, ``jdbc:postgresql://host:port/name``, which must be empty."""
        return cls(url, "org.postgresql.Driver", user, password)


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """Settings that may differ between clusters; all others are the same.

    ``readonly_txns`` is ``hive.txn.readonly.enabled`` (None: Hive's default). ``messages`` is the wire format
    of the notification log. ``extra`` applies to metastore and engine and overrides everything else. ``jars``
    follow Hive's own on the class path of both. ``hive`` is a version of ``java_build.LOCKS``.
    """

    messages: str = "gzip"
    compactor: bool = False
    readonly_txns: bool | None = None
    extra: Mapping[str, str] = field(default_factory=dict)
    jars: tuple[Path, ...] = ()
    hive: str = "4.2"


@dataclass(frozen=True, slots=True)
class Layout:
    """The directories of one cluster."""

    root: Path

    @property
    def warehouse(self) -> Path:
        """Managed tables."""
        return self.root / "warehouse"

    @property
    def external(self) -> Path:
        """External tables."""
        return self.root / "external"

    @property
    def cmroot(self) -> Path:
        """Root of the change manager."""
        return self.root / "cmroot"

    @property
    def tmp(self) -> Path:
        """Scratch space of both processes."""
        return self.root / "tmp"

    def create(self) -> None:
        """Create the directories that do not exist."""
        for directory in (self.warehouse, self.external, self.cmroot, self.tmp):
            directory.mkdir(parents=True, exist_ok=True)


def build_metastore_properties(
    layout: Layout, host: str, port: int, database: Database, settings: ClusterSettings
) -> Properties:
    """Return the settings of the metastore (``metastore-site.xml`` and, for the compactor,
    ``hive-site.xml``).
    """
    return {
        **_shared(layout, settings),
        **_connection(database),
        "metastore.transactional.event.listeners": _LISTENER,
        "metastore.event.message.factory": ENCODERS[settings.messages],
        "metastore.event.db.notification.api.auth": "false",
        "metastore.expression.proxy": (
            "org.apache.hadoop.hive.ql.optimizer.ppr.PartitionExpressionForMetastore"
        ),
        "metastore.thrift.bind.host": host,
        "metastore.thrift.port": str(port),
        "metastore.thrift.uris": f"thrift://{host}:{port}",
        "metastore.server.min.threads": "4",
        "metastore.hmshandler.retry.interval": "200ms",
        "metastore.metrics.enabled": "false",
        "metastore.catalog.servlet.port": "-1",
        "metastore.task.threads.remote": HOUSEKEEPING,
        "hive.metastore.client.capability.check": "false",
        **_compactor(settings),
        **(_compaction_in_metastore(layout, settings) if settings.hive == HIVE_3 else {}),
        **_OF_VERSION.get(settings.hive, {}),
        **(DROPS_IN_TURN if settings.hive == NEWEST and database.kind == "derby" else {}),
        **settings.extra,
    }


def build_engine_properties(layout: Layout, metastore_uri: str, settings: ClusterSettings) -> Properties:
    """Return the settings of the SQL engine: MapReduce runs in its process, and is polled every 50 ms instead
    of every second.
    """
    return {
        **_shared(layout, settings),
        **_local_execution(layout),
        **_compaction_worker(settings),
        "hive.metastore.uris": metastore_uri,
        "hive.exec.mode.local.auto": "true",
        "hive.exec.submit.local.task.via.child": "false",
        "hive.exec.dynamic.partition.mode": "nonstrict",
        **_scratch(layout),
        "hive.exec.counters.pull.interval": "50",
        "hive.auto.convert.join": "false",  # the local map-join task of a MERGE fails in a single process
        "hive.fetch.task.conversion": "more",
        "hive.session.silent": "true",
        "hive.driver.parallel.compilation": "true",
        "hive.security.authorization.enabled": "false",
        "hive.server2.logging.operation.enabled": "false",
        # the cache's directory of Hive 3.1 would have to be writable for all users
        **({"hive.query.results.cache.enabled": "false"} if settings.hive == HIVE_3 else {}),
        **settings.extra,
    }


def _shared(layout: Layout, settings: ClusterSettings) -> Properties:
    shared = {
        "fs.file.impl": "tideline.stack.ChecksummedLocalFileSystem",
        "hive.metastore.warehouse.dir": f"file:{layout.warehouse}",
        "hive.metastore.warehouse.external.dir": f"file:{layout.external}",
        "hive.repl.cm.enabled": "true",
        "hive.repl.cmrootdir": f"file:{layout.cmroot}",
        "hive.metastore.dml.events": "true",
        "hive.txn.manager": "org.apache.hadoop.hive.ql.lockmgr.DbTxnManager",
        "hive.support.concurrency": "true",
        "hive.in.test": "false",
        "hive.async.log.enabled": "false",
    }
    if settings.readonly_txns is not None:
        shared["hive.txn.readonly.enabled"] = str(settings.readonly_txns).lower()
    return shared


def _connection(database: Database) -> Properties:
    return {
        "javax.jdo.option.ConnectionURL": database.url,
        "javax.jdo.option.ConnectionDriverName": database.driver,
        "javax.jdo.option.ConnectionUserName": database.user,
        "javax.jdo.option.ConnectionPassword": database.password,
        "datanucleus.connectionPool.maxPoolSize": "4",
        "datanucleus.schema.autoCreateAll": "true",
        "metastore.schema.verification": "false",
        "hive.metastore.schema.verification": "false",
    }


def _local_execution(layout: Layout) -> Properties:
    return {
        "hive.execution.engine": "mr",
        "mapreduce.framework.name": "local",
        "hive.exec.pre.hooks": ONE_JOB_AT_A_TIME,
        "hive.exec.post.hooks": ONE_JOB_AT_A_TIME,
        "hive.exec.failure.hooks": ONE_JOB_AT_A_TIME,
        "mapreduce.local.map.tasks.maximum": "1",
        # A map task that fails before its reducer (a statement of the random histories) never frees this
        # memory and a thread.
        "mapreduce.task.io.sort.mb": "1",
        "hadoop.tmp.dir": f"{layout.tmp}/hadoop",
    }


def _compactor(settings: ClusterSettings) -> Properties:
    """Return the settings of initiator and cleaner; since 4.2 the worker exists only in the SQL engine."""
    on = str(settings.compactor).lower()
    switches = {
        "metastore.compactor.initiator.on": on,
        "metastore.compactor.cleaner.on": on,
        "metastore.compactor.worker.threads": "0",
    }
    if not settings.compactor:
        return switches
    return {
        **switches,
        # Hive's default also contains a class of Iceberg, with which no compactor thread starts.
        "compactor.table.optimizers": "org.apache.hadoop.hive.ql.txn.compactor.AcidTableOptimizer",
        "hive.compactor.check.interval": "1s",
        "hive.compactor.cleaner.run.interval": "1000ms",
        "metastore.compactor.cleaner.run.interval": "1000ms",
        "hive.compactor.cleaner.retention.time.seconds": "5s",
    }


def _compaction_in_metastore(layout: Layout, settings: ClusterSettings) -> Properties:
    """Return the settings with which the metastore of Hive 3.1 compacts: its worker runs MapReduce jobs and
    SQL.
    """
    return {
        "metastore.compactor.worker.threads": "1" if settings.compactor else "0",
        **_local_execution(layout),
        **_scratch(layout),
    }


def _scratch(layout: Layout) -> Properties:
    return {
        "hive.exec.scratchdir": f"file:{layout.tmp}/scratch",
        "hive.exec.local.scratchdir": f"{layout.tmp}/local",
        "hive.user.install.directory": f"file:{layout.tmp}/user",
        "hive.downloaded.resources.dir": f"{layout.tmp}/resources",
        "hive.querylog.location": f"{layout.tmp}/querylog",
    }


def _compaction_worker(settings: ClusterSettings) -> Properties:
    return {
        "tideline.stack.compaction.worker": str(settings.compactor).lower(),
        "hive.compactor.worker.sleep.time": "500ms",
        "hive.compactor.worker.max.sleep.time": "1s",
    }


def render(properties: Mapping[str, str]) -> str:
    """Return the properties as a Hadoop configuration file, sorted by name."""
    rows = [
        f"  <property><name>{escape(name)}</name><value>{escape(value)}</value></property>"
        for name, value in sorted(properties.items())
    ]
    return "\n".join(["<configuration>", *rows, "</configuration>", ""])


def write_conf(directory: Path, properties: Mapping[str, str], names: tuple[str, ...]) -> None:
    """Write the properties to all named files, and the log settings next to them."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(render(properties))
    for name in LOG_SETTINGS:
        (directory / name).write_text(LOG4J2)


LOG_SETTINGS = ("log4j2.properties", "hive-log4j2.properties", "metastore-log4j2.properties")
"""Names of the file with the log settings. The first is for all versions; the others replace those in the
jars of Hive 2.3 and 3.1, which would log to files below /tmp.
"""
LOG4J2 = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{HH:mm:ss.SSS} %-5p [%t] %c{1}: %m%n
rootLogger.level=${sys:stack.log.level:-info}
rootLogger.appenderRef.out.ref=out
logger.datanucleus.name=DataNucleus
logger.datanucleus.level=error
"""
