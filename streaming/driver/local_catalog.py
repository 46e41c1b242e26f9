"""Spark's own metastore for a first try: one directory, no server.

Where no metastore is configured, the table lives in the catalog that Spark carries (Hive 2.3's metastore with Derby, in the
driver's process). One process at a time can open it, so readers use it while the stream is stopped, or read the files; whoever
keeps the table gives it a metastore (``flat.NAME.metastore``). Settings for Spark that name a catalog win.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError
from streaming.driver.session import JAVA_OPTIONS


if TYPE_CHECKING:
    from streaming.settings import FlatSettings


CATALOG: Final = "spark.sql.catalogImplementation"
DIRECTORY: Final = ".metastore"
"""Within the table's directory; hidden, so that no engine takes it for data."""


def build_conf(settings: FlatSettings) -> dict[str, str]:
    """Return what Spark has to be told, nothing where a metastore is configured; ConfigError where Derby cannot lie there."""
    if not _is_used(settings):
        return {}
    place = _place(settings.location)
    return {
        CATALOG: "hive",
        "spark.sql.warehouse.dir": f"{place}/.warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={place}/{DIRECTORY};create=true",
        "spark.hadoop.datanucleus.schema.autoCreateAll": "true",
        "spark.hadoop.hive.metastore.schema.verification": "false",
        "spark.driver.extraJavaOptions": f"{JAVA_OPTIONS} -Dderby.stream.error.file={place}/{DIRECTORY}.log",
    }


def make_directory(settings: FlatSettings) -> None:
    """Make the table's directory where Spark's own catalog goes into it, for Derby's log; ConfigError where that is not allowed."""
    if not _is_used(settings):
        return
    place = Path(_place(settings.location))
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            "the table's directory cannot be made",
            location=settings.location,
            reason=error.strerror,
            hint="Spark's own catalog needs a directory that can be written to (flat.NAME.location).",
        ) from error


def _is_used(settings: FlatSettings) -> bool:
    return not settings.metastores and CATALOG not in settings.spark.conf


def _place(location: str) -> str:
    scheme, colon, path = location.partition(":")
    if colon and scheme != "file":
        raise ConfigError(
            "Spark's own catalog needs a table on a local disk",
            location=location,
            hint="Name a metastore (flat.NAME.metastore or cluster) for a table elsewhere.",
        )
    return f"/{path.strip('/')}" if colon else location.rstrip("/")
