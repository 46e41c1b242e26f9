"""Hudi 1.2 as its users run it, with the metastore at a URI:
in Spark's SQL shell, and its own tool for synchronization with Hive.

Spark is 3.5 with its Hive 2.3 client, from the jars of ``spark-hudi.lock``, since Hudi has a bundle for each
Spark version.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dev.stack.downloads.jars import fetch, find_missing, locate_jars, read_lock
from dev.stack.downloads.maven_repository import find_repository
from dev.stack.process.java_runtime import FRUGAL, OPENS, find_java


TIMEOUT_S = 500.0
SPARK = {
    "spark.master": "local[2]",
    "spark.app.name": "hudi",
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.catalogImplementation": "hive",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
}
OPENED = ["sun.nio.cs", "sun.security.action", "sun.util.calendar"]


@dataclass(frozen=True)
class Hudi:
    """Hudi in one directory, with the metastore at ``uri``."""

    uri: str
    directory: Path

    def run_sql(self, text: str) -> subprocess.CompletedProcess[str]:
        """Run statements in Spark's SQL shell, up to the first that fails."""
        file = self.directory / "statements.sql"
        file.write_text(text)
        settings = {
            **SPARK,
            "spark.hadoop.hive.metastore.uris": self.uri,
            "spark.sql.warehouse.dir": str(self.directory / "warehouse"),
        }
        options = [f"-D{key}={value}" for key, value in settings.items()]
        return self._java(options, "org.apache.spark.sql.hive.thriftserver.SparkSQLCLIDriver", "-f", file)

    def sync(self, files: Path, database: str, table: str) -> subprocess.CompletedProcess[str]:
        """Run Hudi's sync tool, which registers the table in ``files``, partitioned by ``dt``, under this
        name."""
        options = {
            "metastore-uris": self.uri,
            "sync-mode": "hms",
            "base-path": files.as_uri(),
            "database": database,
            "table": table,
            "partitioned-by": "dt",
            "partition-value-extractor": "org.apache.hudi.hive.HiveStylePartitionValueExtractor",
        }
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        return self._java([], "org.apache.hudi.hive.HiveSyncTool", *words)

    def _java(self, options: list[str], *words: object) -> subprocess.CompletedProcess[str]:
        opens = [*OPENS, *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in OPENED)]
        return subprocess.run(
            [str(find_java()), *FRUGAL, *opens, "-Xmx1g", *options, *map(str, words)],
            env={**os.environ, "CLASSPATH": os.pathsep.join(map(str, locate_jars(read_lock("spark-hudi"))))},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
            cwd=self.directory,
        )


def fetch_hudi() -> None:
    """Fetch the missing jars, 340 MB the first time."""
    jars = read_lock("spark-hudi")
    if find_missing(jars):
        fetch(jars, find_repository())


def rows_of(done: subprocess.CompletedProcess[str]) -> list[list[str]]:
    """Return the rows that a shell has printed; Hudi's warnings begin with ``#``."""
    return [line.split("\t") for line in done.stdout.splitlines() if not line.startswith("#")]
