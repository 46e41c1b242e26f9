"""Spark's own metastore as the catalog of flat tables, for a trial on one machine without Hive.

A Spark session with ``spark.sql.catalogImplementation=hive`` and no metastore address runs the metastore of
Hive 2.3 inside its JVM. Spark SQL cannot change a column's type or a partition's parameters. So this module
bypasses Spark SQL and uses the metastore's own client through py4j. It passes objects as Thrift JSON, which
both sides read and write, instead of with one py4j call for each field.

That metastore has no compare-and-set. It runs in one process (its database is Derby), so a lock around
reading, comparing and writing gives the same guarantee for all sessions of this process. Two processes must
not use one such metastore.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar

from handlers.structs import tjson
from handlers.structs.objects import EnvironmentContext, Partition, Table
from handlers.structs.struct import Struct
from state.errors import AlreadyExists, Conflict, InvalidRequest, NotFound, ServerFault, TidelineError
from streaming.table.catalog import TYPE_CHECK


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import SparkSession


_API: Final = "org.apache.hadoop.hive.metastore.api"
_LOCK: Final = threading.RLock()
_KINDS: Final[dict[str, type[TidelineError]]] = {
    "NoSuchObjectException": NotFound,
    "UnknownDBException": NotFound,
    "UnknownTableException": NotFound,
    "AlreadyExistsException": AlreadyExists,
    "InvalidOperationException": InvalidRequest,
    "InvalidObjectException": InvalidRequest,
}
_ALL: Final = 32_767
S = TypeVar("S", bound=Struct)


class SparkCatalog:
    """The ``Catalog`` on the metastore inside a Spark session's JVM."""

    def __init__(self, session: SparkSession) -> None:
        opened: Any = session
        self._jvm = opened._jvm  # noqa: SLF001 - py4j's way into the JVM; no public way exists
        state = opened._jsparkSession.sessionState()  # noqa: SLF001 - likewise
        self._sessions_catalog = state.catalog()
        self._configuration = state.newHadoopConf()
        self._client = self._open_client()
        protocol = self._jvm.org.apache.thrift.protocol.TJSONProtocol.Factory()
        self._writer = self._jvm.org.apache.thrift.TSerializer(protocol)
        self._reader = self._jvm.org.apache.thrift.TDeserializer(protocol)

        self._uncounted = self._java(EnvironmentContext(properties={"DO_NOT_UPDATE_STATS": "true"}))

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def get_table(self, db: str, name: str) -> Table:
        """Return the table."""
        with _LOCK, _errors("getTable"):
            return self._python(Table, self._client.getTable(db, name))

    def create_table(self, table: Table) -> None:
        """Create a table."""
        with _LOCK, _errors("createTable"):
            self._client.createTable(self._java(table))

    def replace_table(self, table: Table, *, key: str, expected: str, narrows: bool = False) -> None:
        """Compare and store under the process's lock, then drop the table from Spark's cache."""
        with _LOCK, _errors("alter_table"):
            current = self.get_table(table.dbName, table.tableName)
            present = (current.parameters or {}).get(key)
            if present != expected:
                raise Conflict(
                    "another writer changed the table",
                    table=f"{table.dbName}.{table.tableName}",
                    expected=expected,
                    found=present,
                )
            client = self._open_client(checks_types=False) if narrows else self._client
            try:
                client.alter_table(table.dbName, table.tableName, self._java(table))
            finally:
                if narrows:
                    client.close()
            self._refresh(table.dbName, table.tableName)

    def partition_names(self, db: str, table: str) -> list[str]:
        """Return the names of all partitions, at most 32,767, which is almost four years of hours."""
        with _LOCK, _errors("listPartitionNames"):
            return list(self._client.listPartitionNames(db, table, _ALL))

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return the partitions that exist, always with their columns."""
        del with_columns
        with _LOCK, _errors("getPartitionsByNames"):
            partitions = self._client.getPartitionsByNames(db, table, self._list(names))
            return [self._python(Partition, each) for each in partitions]

    def add_partition(self, partition: Partition) -> None:
        """Add the partition if it is missing."""
        with _LOCK, _errors("add_partition"):
            # FBT003: Java's: if not exists, need results
            self._client.add_partitions(self._list([self._java(partition)]), True, False)  # noqa: FBT003
            self._refresh(partition.dbName, partition.tableName)

    def replace_partition(self, partition: Partition) -> None:
        """Replace the partition."""
        with _LOCK, _errors("alter_partition"):
            self._client.alter_partition(
                partition.dbName, partition.tableName, self._java(partition), self._uncounted
            )
            self._refresh(partition.dbName, partition.tableName)

    def delete_column_statistics(self, partition: Partition, name: str) -> None:
        """Delete the statistics of all columns."""
        with _LOCK, suppress(NotFound), _errors("deletePartitionColumnStatistics"):
            self._client.deletePartitionColumnStatistics(partition.dbName, partition.tableName, name, None)

    def drop_partitions(self, db: str, table: str, names: Sequence[str]) -> None:
        """Drop the partitions that exist."""
        for partition in self.get_partitions(db, table, names):
            with _LOCK, _errors("dropPartition"):
                # FBT003: Java's: delete data
                self._client.dropPartition(db, table, self._list(partition.values), False)  # noqa: FBT003
        self._refresh(db, table)

    def _open_client(self, *, checks_types: bool = True) -> Any:
        """Return a client with its own metastore in the JVM, which does or does not check changes of column
        types.
        """
        hive = self._jvm.org.apache.hadoop.hive
        with _errors("connect"):
            conf = hive.conf.HiveConf(self._configuration, self._configuration.getClass())
            if not checks_types:
                conf.set(TYPE_CHECK, "false")
            return hive.metastore.HiveMetaStoreClient(conf)

    def _refresh(self, db: str, table: str) -> None:
        """Drop this session's cache of the table, without ``refreshTable``, which would first open Spark's
        own client.
        """
        spark = self._jvm.org.apache.spark.sql.catalyst
        self._sessions_catalog.invalidateCachedTable(
            spark.TableIdentifier(table, self._jvm.scala.Option.apply(db))
        )

    def _java(self, struct: Struct) -> Any:
        bean = getattr(self._jvm, f"{_API}.{type(struct).__name__}")()
        self._reader.deserialize(bean, tjson.encode(struct).encode())
        return bean

    def _python(self, cls: type[S], bean: Any) -> S:
        return tjson.decode(cls, bytes(self._writer.serialize(bean)).decode())

    def _list(self, items: Sequence[object]) -> Any:
        made = self._jvm.java.util.ArrayList()
        for item in items:
            made.add(item)
        return made


@contextmanager
def _errors(call: str) -> Iterator[None]:
    """Raise Tideline's errors for exceptions of the JVM."""
    from py4j.protocol import Py4JError, Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except Py4JJavaError as error:
        thrown = error.java_exception
        name = str(thrown.getClass().getSimpleName())
        kind = _KINDS.get(name, ServerFault)
        raise kind(
            "Spark's metastore refused the request",
            call=call,
            hive=name,
            reason=str(thrown.getMessage())[:2000],
        ) from error
    except PySparkException as error:
        raise InvalidRequest("Spark refused the request", call=call, reason=str(error)[:2000]) from error
    except Py4JError as error:
        raise ServerFault("Spark's JVM does not answer", call=call, reason=str(error)[:2000]) from error
