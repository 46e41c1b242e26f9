"""Spark's own catalog for a trial: a directory without a server.

Without a configured metastore, the table is in the catalog that Spark includes (the metastore of Hive 2.3
with Derby, inside the driver's process). Only one process at a time can open it, so readers use it while the
stream is stopped, or read the files directly. A table in production needs a metastore
(``flat.NAME.metastore``). Spark settings that name a catalog take precedence.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from state.errors import ConfigError
from streaming.driver.session import JAVA_OPTIONS
from streaming.settings import FlatSettings


CATALOG: Final = "spark.sql.catalogImplementation"
DIRECTORY: Final = ".metastore"
"""Directory within the table's directory; hidden, so that no engine reads it as data."""
COMPLETE: Final = "service.properties"
"""The file that Derby writes at the end of the creation of a database."""


def is_used(settings: FlatSettings) -> bool:
    """Whether the table is in Spark's own catalog, which one process at a time can open."""
    return not settings.metastores and CATALOG not in settings.spark.conf


def is_missing(settings: FlatSettings) -> bool:
    """Whether the table is in Spark's own catalog and that catalog does not exist yet."""
    return is_used(settings) and not (Path(_local_path(settings.location)) / DIRECTORY).exists()


def build_conf(settings: FlatSettings) -> dict[str, str]:
    """Return the Spark settings of the catalog, none with a metastore. Raises ConfigError if the table is not
    on a local disk.
    """
    if not is_used(settings):
        return {}
    path = _local_path(settings.location)
    return {
        CATALOG: "hive",
        "spark.sql.warehouse.dir": f"{path}/.warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={path}/{DIRECTORY};create=true"
        ),
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Dderby.stream.error.file={path}/{DIRECTORY}.log",
    }


def open_ahead(settings: FlatSettings, conf: Mapping[str, str]) -> Callable[[Any], None] | None:
    """Return a function that opens and closes the catalog in a JVM, so that the next open is fast; None if it
    is not used.

    The first open starts Derby, creates or checks the catalog's tables, and loads a third of all classes of a
    driver. ``conf`` must be the settings of the session, because the metastore keeps its connections only for
    equal settings.
    """
    if not is_used(settings):
        return None

    def open_and_close(jvm: Any) -> None:
        hive = jvm.org.apache.hadoop.hive
        made = hive.conf.HiveConf()
        for name, value in conf.items():
            made.set(name, value)
            made.set(name.removeprefix("spark.hadoop."), value)
        client = hive.metastore.HiveMetaStoreClient(made)
        try:
            client.tableExists(settings.database, settings.table)
        finally:
            client.close()

    return open_and_close


def make_directory(settings: FlatSettings) -> None:
    """Create the table's directory, for Derby's log, if Spark's own catalog is used. Raises ConfigError if
    that fails.

    If the creation of a catalog was interrupted, removes the catalog, because Derby refuses to open it. It
    has no table yet. The caller holds the table's lock.
    """
    if not is_used(settings):
        return
    directory = Path(_local_path(settings.location))
    try:
        directory.mkdir(parents=True, exist_ok=True)
        catalog = directory / DIRECTORY
        if catalog.is_dir() and not (catalog / COMPLETE).exists():
            shutil.rmtree(catalog)
    except OSError as error:
        raise ConfigError(
            "the table's directory cannot be created",
            location=settings.location,
            reason=error.strerror,
            hint="Spark's own catalog needs a writable directory (flat.NAME.location).",
        ) from error


def _local_path(location: str) -> str:
    scheme, colon, path = location.partition(":")
    if colon and scheme != "file":
        raise ConfigError(
            "Spark's own catalog needs a table on a local disk",
            location=location,
            hint="For a table elsewhere, set a metastore (flat.NAME.metastore or flat.NAME.cluster).",
        )
    return f"/{path.strip('/')}" if colon else location.rstrip("/")
