"""Small Spark sessions for tests, with Hive's metastore in the memory of the JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4


@contextmanager
def spark_with_metastore(directory: Path, conf: Mapping[str, str] | None = None) -> Iterator[Any]:
    """Provide a session with its own catalog below ``directory``, and stop it afterwards."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").appName("tideline-tests")
    settings = {
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:memory:{uuid4().hex};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"-Dderby.stream.error.file={directory}/derby.log",
        **(conf or {}),
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    try:
        yield session
    finally:
        session.stop()


def copy_file(session: Any, source: str, target: str) -> None:
    """Copy a file between any locations that the session can access."""
    hadoop = session._jvm.org.apache.hadoop.fs  # noqa: SLF001 - PySpark has no other way to its JVM
    conf = session.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 - likewise
    old, new = hadoop.Path(source), hadoop.Path(target)
    # FBT003: a parameter in Java: keep the source
    assert hadoop.FileUtil.copy(old.getFileSystem(conf), old, new.getFileSystem(conf), new, False, conf)  # noqa: FBT003
