"""Parses plain rows in one pass over their bytes, at a fifth of the cost of Spark's reader.

Spark's ``from_json`` decodes a row into characters and compares them with all names and values. ``java/PlainRowParser`` reads the bytes,
skips what was not requested, and returns the same STRUCT. It accepts only *plain* rows: strict JSON objects in which every requested value
fits its type. For any other row it returns NULL, and ``from_json`` parses it as before. So no rule of Spark's reader about unusual rows
is written twice.

The parser is a function of Spark SQL in a catalog of its own, through Spark's interface for such functions
(``org.apache.spark.sql.connector.catalog.FunctionCatalog``). Its jar is a part of this package, and Spark sends it to executors. It
needs no Python there. Sessions without the catalog use ``from_json`` alone; the results are equal.

``java/`` contains the sources, and ``python -m dev.plain_rows_jar`` compiles them with Janino, the compiler that Spark brings along. A test
compares the jar with its sources.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from streaming.split.parse_schema import Parse


JAR: Final = Path(__file__).with_name("plain_rows.jar")
SOURCES: Final = Path(__file__).with_name("java")
_CATALOG: Final = "tideline_parsers"
_SETTING: Final = f"spark.sql.catalog.{_CATALOG}"
CONF: Final = {_SETTING: "tideline.split.ParserCatalog"}
"""Settings of a session that has the jar. An empty value switches the parser off."""


def parse_plain_rows(spark: SparkSession, text: str, parse: Parse) -> Column | None:
    """Return the STRUCT of every plain row, NULL for other rows; None if the session has no parser.

    ``text`` is the quoted name of the column with the rows. The field for doubtful rows (``parse.doubt``) is NULL.
    """
    from pyspark.sql import functions

    if not spark.conf.get(_SETTING, ""):
        return None
    schema = parse.typed_schema()
    name = f"plain_{hashlib.sha256(schema.encode()).hexdigest()[:16]}"
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
    jvm.tideline.split.ParserCatalog.register(name, schema, parse.doubt)
    return functions.call_function(f"{_CATALOG}.{name}", functions.expr(text))
