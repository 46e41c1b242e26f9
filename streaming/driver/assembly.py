"""Assembly: builds the parts of one table's stream from its settings around a running Spark session.

Only one process may write a table. On one machine, a lock on a local file ensures this; it is released when
the process dies, so a restart never waits. Between machines, the lease in the table ensures it. The holder of
the lease is the stream (its checkpoint) on this machine, so a restarted driver still holds it.

Hadoop's ``FileSystem`` writes a checkpoint on a local disk. With Spark's default, ``FileContext``, each of
the three files of a batch would start eight programs (``readlink``). ``FileSystem`` renames as atomically,
but checks for an existing file in a separate step, which is sufficient for a checkpoint with one writer.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
import secrets
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from handlers.files.paths import parse_location
from state.columns.slots import Layout
from state.errors import AlreadyExists, ConfigError, NotFound, StateCorrupt, StateLocked
from streaming.batch.key_demand import open_key_demand
from streaming.batch.records import BatchRecords, HourCountsFile
from streaming.batch.runner import BatchOrigin, BatchRunner, Stream
from streaming.batch.sampling import Sampler
from streaming.batch.staged_files import BatchPublisher, Stager
from streaming.settings import KafkaSource, Publishing
from streaming.source.raw_events import open_source, parse_offsets
from streaming.source.topic_identity import SparkTopicReader, Topic, TopicGuard
from streaming.split.plain_rows import separate_documents
from streaming.split.pushdown_guard import PushdownGuard
from streaming.storage.hadoop import open_storage
from streaming.table.catalog import HiveCatalog
from streaming.table.current_files import CurrentTableFile
from streaming.table.hours import HourColumns
from streaming.table.lease import WriterLease
from streaming.table.metastore_table import MetastoreTable
from streaming.table.partition_cache import CachedTable
from streaming.table.retention import Deletions
from streaming.table.spark_catalog import SparkCatalog
from streaming.upkeep.maintenance import Maintenance, Sealer
from streaming.upkeep.rewriting import Rewriter, ignore_rewrites


if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from streaming.settings import FlatSettings
    from streaming.storage.port import Storage
    from streaming.table.flat_table import FlatTable, TableState
    from streaming.upkeep.rewriting import RewriteListener


_SETTING: Final = "spark.sql.streaming.checkpointFileManagerClass"
_PACKAGES: Final = ("streaming", "streaming.checkpointing")
"""Package of the class in Spark 4.0 and later versions."""
_CLASS: Final = "org.apache.spark.sql.execution.{}.FileSystemBasedCheckpointFileManager"
_LOCKS: dict[str, int] = {}
"""Descriptors of the locks that this process holds until it ends."""


@dataclass(frozen=True, slots=True)
class Assembly:
    """The parts that a driver or a command needs."""

    settings: FlatSettings
    spark: SparkSession
    storage: Storage
    stream: Stream
    runner: BatchRunner
    sealer: Sealer
    maintenance: Maintenance
    guard: TopicGuard | None

    def source(self) -> DataFrame:
        """Return the streaming DataFrame of raw events."""
        source = self.settings.source
        return separate_documents(open_source(self.spark, source), source.documents)

    def origin(self, batch: int) -> BatchOrigin:
        """Return the origin of ``batch``, from the offsets that Spark writes to the checkpoint before it runs
        the batch.
        """
        path = f"{self.settings.checkpoint.rstrip('/')}/offsets/{batch}"
        lines = (self.storage.read(path) or "").splitlines()
        if len(lines) < 3:
            raise StateCorrupt("Spark's checkpoint has no offsets of a batch", path=path)
        return BatchOrigin(lines[2], tuple(parse_offsets(lines[2], self._topic)) or (0,))

    def check_topic(self) -> Topic | None:
        """Return the topic, None for a directory. Raises TopicReplaced if another topic has its name."""
        if self.guard is None:
            return None
        last = self.stream.records.last()
        return self.guard.check(parse_offsets(last.origin, self._topic) if last else {})

    @property
    def _topic(self) -> str:
        source = self.settings.source
        return source.topic if isinstance(source, KafkaSource) else ""


def assemble(
    settings: FlatSettings,
    spark: SparkSession,
    clock: Callable[[], float] = time.time,
    *,
    read_only: bool = False,
    on_rewrite: RewriteListener = ignore_rewrites,
) -> Assembly:
    """Build the parts, and create the table if it is missing. With ``read_only``, takes no lock and creates
    nothing, so that it may run in parallel with the writer.

    Raises ConfigError, StateLocked if another process on this machine writes the table, and NotFound if the
    database does not exist, or, with ``read_only``, the table.
    """
    settings.check()
    if not read_only:
        lock(settings)
    storage = open_storage(spark, renames=settings.publishes_by is Publishing.RENAME)
    if storage.is_local(settings.checkpoint):
        use_file_system(spark)
    own = f"{settings.checkpoint.rstrip('/')}/tideline"
    table = CachedTable(_make_table(settings, spark, storage))
    state = _open_table(table, settings, create=not read_only)
    query = "" if read_only else _load_stream_id(storage, f"{own}/stream.json")
    guard = PushdownGuard(spark, storage)
    sampler = Sampler(spark, settings, storage)
    current = CurrentTableFile(table, storage)
    stream = Stream(
        settings=settings,
        query=query,
        table=table,
        lease=WriterLease(table, f"{platform.node()[:100]}/{query}", clock=clock),
        records=BatchRecords(storage, f"{own}/batches"),
        hour_counts=HourCountsFile(storage, f"{own}/book.json", settings.retention_s),
        stager=Stager(settings, storage, query, guard),
        publisher=BatchPublisher(table, storage, query),
        current=current,
        key_demand=open_key_demand(settings),
        sampler=sampler,
        clock=clock,
    )
    runner = BatchRunner(stream)
    deletions = Deletions(state.location, storage)
    rewriter = Rewriter(
        spark, settings, table, stream.lease, storage, deletions, sampler, guard, current, clock, on_rewrite
    )
    sealer = Sealer(settings, rewriter, clock)
    topic_guard = None
    if isinstance(settings.source, KafkaSource):
        topics = SparkTopicReader(spark, settings.source)
        topic_guard = TopicGuard(topics, settings.source.topic, storage, f"{own}/topic.json")
    return Assembly(
        settings, spark, storage, stream, runner, sealer, Maintenance(stream, runner, sealer), topic_guard
    )


def _make_table(settings: FlatSettings, spark: SparkSession, storage: Storage) -> FlatTable:
    if not settings.metastores:
        return MetastoreTable(SparkCatalog(spark), settings.database, settings.table, storage)
    from handlers.metastore.client import Metastore

    return MetastoreTable(
        HiveCatalog(Metastore(settings.metastores)), settings.database, settings.table, storage
    )


def _open_table(table: FlatTable, settings: FlatSettings, *, create: bool) -> TableState:
    columns = HourColumns(settings.partition_columns)
    location = parse_location(settings.location)
    try:
        state = table.read()
    except NotFound as missing:
        if not create:
            raise NotFound("the flat table does not exist yet", table=settings.name) from missing
        try:
            state = table.create(Layout.new(), location=location, columns=columns)
        except AlreadyExists:
            state = table.read()
    if state.columns != columns or state.location != location:
        raise ConfigError(
            "location or partition columns of the table differ from the configuration",
            table=table.title,
            location=str(state.location),
            partition_columns=[f"{each.name} {each.type} {each.pattern}" for each in state.columns.columns],
        )
    return state


def _load_stream_id(storage: Storage, path: str) -> str:
    """Return the id of this checkpoint's stream; create it on first use."""
    storage.create(path, json.dumps({"id": secrets.token_hex(6)}))
    try:
        return str(json.loads(storage.read(path) or "")["id"])
    except (ValueError, KeyError, TypeError) as broken:
        raise StateCorrupt("the record of the stream's id is corrupt", path=path) from broken


def lock(settings: FlatSettings) -> None:
    """Take the table's lock on this machine until the process ends. Raises StateLocked if another process has
    it.
    """
    path = lock_path(settings)
    if path.name in _LOCKS:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StateLocked(
            "another process on this machine uses the table",
            table=settings.name,
            hint="Stop it first: 'tideline split run' and the commands that change a table exclude each "
            "other.",
        ) from error
    _LOCKS[path.name] = descriptor


def lock_path(settings: FlatSettings) -> Path:
    """Return the path of the table's lock file."""
    return Path(tempfile.gettempdir()) / f"tideline-flat-{settings.fingerprint}.lock"


def use_file_system(spark: SparkSession) -> None:
    """Make Spark write a checkpoint on a local disk through ``FileSystem``, unless the configuration says
    otherwise or this version of Spark does not support that.
    """
    from py4j.protocol import Py4JJavaError

    if spark.conf.get(_SETTING, None) is not None:
        return
    loader = spark._jvm.org.apache.spark.util.Utils  # type: ignore[union-attr] # noqa: SLF001 - PySpark has no other way to its JVM
    for package in _PACKAGES:
        name = _CLASS.format(package)
        try:
            # FBT003: Java's: initialize, only Spark's class loader
            loader.classForName(name, True, False)  # noqa: FBT003
        except Py4JJavaError:
            continue
        spark.conf.set(_SETTING, name)
        return
