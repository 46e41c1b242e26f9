"""One Spark session for the tests of a process, and flat tables on either metastore."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dev.stack.downloads.jars import locate_jars, read_lock
from dev.stack.endpoints import ClusterEndpoints
from handlers.files.paths import Location, parse_location
from handlers.metastore.client import Metastore
from streaming.split import plain_rows
from streaming.storage.hadoop import HadoopStorage
from streaming.table.catalog import HiveCatalog
from streaming.table.metastore_table import MetastoreTable
from streaming.table.spark_catalog import SparkCatalog
from tests.builders.components.object_store import TestStore, hadoop_jars
from tests.builders.components.spark_sessions import spark_with_metastore


HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Ignore warnings about PySpark's sockets in these tests."""
    ignore_sockets(item for item in items if item.path.is_relative_to(HERE))


def ignore_sockets(items: Iterable[pytest.Item]) -> None:
    """Ignore warnings about sockets, which PySpark leaves to the garbage collector."""
    for item in items:
        item.add_marker(pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"))
        item.add_marker(
            pytest.mark.filterwarnings("ignore:.*<socket:pytest.PytestUnraisableExceptionWarning")
        )


@pytest.fixture(autouse=True)
def sockets_left() -> Iterator[None]:
    """Collect PySpark's sockets here, so that no other test gets their warnings."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session with its own metastore in memory, and with the object store that ``TIDELINE_TEST_S3``
    names."""
    store = TestStore.named()
    jars = [*locate_jars(read_lock("spark-kafka")), *(hadoop_jars() if store else ())]
    conf = {
        "spark.jars": ",".join(map(str, [*jars, plain_rows.JAR])),
        **plain_rows.CONF,
        **(store.spark if store else {}),
    }
    with spark_with_metastore(tmp_path_factory.mktemp("spark"), conf) as session:
        yield session


@pytest.fixture
def elsewhere() -> dict[str, Any]:
    """Settings of streams whose table is not on a local disk; none unless a module overrides this."""
    return {}


@pytest.fixture
def metastore(source: ClusterEndpoints, database: str) -> Iterator[Metastore]:
    """A client of the source; creates ``database``."""
    from handlers.structs.objects import Database

    client = Metastore(source.metastore)
    client.create_database(Database(name=database))
    yield client
    client.close()


@pytest.fixture
def external(source: ClusterEndpoints, database: str) -> Location:
    """A directory of this test that the source's engine may read."""
    return parse_location(str(Path(source.external) / database))


@pytest.fixture
def hive_flat(metastore: Metastore, database: str, spark: Any) -> MetastoreTable:
    """A flat table, not yet created, on Hive 4."""
    return MetastoreTable(HiveCatalog(metastore), database, "events_flat", HadoopStorage(spark))


@pytest.fixture
def spark_flat(spark: Any, database: str) -> Iterator[MetastoreTable]:
    """A flat table, not yet created, on Spark's own metastore."""
    spark.sql(f"CREATE DATABASE {database}")
    catalog = SparkCatalog(spark)
    yield MetastoreTable(catalog, database, "events_flat", HadoopStorage(spark))
    catalog.close()
