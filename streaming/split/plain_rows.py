"""Parses plain rows, and writes slots to ORC files, at a fraction of the cost of Spark's own classes.

Spark's ``from_json`` decodes a row into characters and compares them with all names and values.
``java/PlainRowParser`` reads the bytes in one pass, skips members without a slot, and returns the slots of
the row in Spark's memory layout. It accepts only *plain* rows: strict JSON objects in which every requested
value fits its slot. For any other row it returns NULL, and the splitter uses ``from_json``. So the parser
need not repeat the rules of Spark's reader for unusual rows.

The slots stay one STRUCT until they are in the file, because Spark copies a STRUCT as a whole in each step of
a query, but columns one by one. ``java/SlotsFormat`` is Spark's ORC format for such rows: it writes the
fields of the STRUCT as the columns of the file, a column at a time. Unlike those of Spark's writer, its
bounds of texts and doubles are right for all readers (``java/Bounds``).

The parser is a function of Spark SQL in its own catalog, through Spark's interface for such functions
(``org.apache.spark.sql.connector.catalog.FunctionCatalog``). Its jar is a part of this package, and Spark
sends it to executors. Executors need no Python for it. A second function separates documents that follow each
other in a record (``{…}{…}``), without reading values: a malformed document becomes a malformed row, and the
documents before it are not affected. Sessions without the catalog use ``from_json`` and Spark's writer alone;
the rows are equal.

``java/`` contains the sources, and ``python -m dev.plain_rows_jar`` compiles them with Janino, the compiler
in Spark's distribution. A test compares the jar with its sources.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from state.columns.slots import SlotState
from state.columns.types import ColumnType
from state.errors import ConfigError
from streaming.settings import Documents
from streaming.split.parse_schema import quote


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from pyspark.sql import DataFrame, SparkSession

    from state.columns.paths import KeyPath
    from state.columns.slots import Slot


JAR: Final = Path(__file__).with_name("plain_rows.jar")
SOURCES: Final = Path(__file__).with_name("java")
_CATALOG: Final = "tideline_parsers"
SETTING: Final = f"spark.sql.catalog.{_CATALOG}"
CONF: Final = {SETTING: "tideline.split.ParserCatalog"}
"""Settings of a session that has the jar. An empty value switches the parser and the writer off."""
FORMAT: Final = "tideline.split.SlotsFormat"
"""The format of a writer of rows with one STRUCT, in a session that has the jar."""
_DOCUMENTS: Final = "documents"
_TYPES: Final = {
    ColumnType.TINYINT: "byte",
    ColumnType.SMALLINT: "short",
    ColumnType.INT: "integer",
    ColumnType.BIGINT: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.STRING: "string",
    ColumnType.BOOLEAN: "boolean",
}


def is_available(spark: SparkSession) -> bool:
    """Whether the session has the jar and may use it."""
    return bool(spark.conf.get(SETTING, ""))


def split_documents(text: str) -> str:
    """Return the SQL of an ARRAY of the JSON objects that follow each other in a text, for a session with the
    jar.
    """
    return f"{_CATALOG}.{_DOCUMENTS}({text})"


def parse_plain_rows(
    spark: SparkSession,
    text: str,
    slots: Iterable[Slot],
    texts: Mapping[str, KeyPath | None],
    quoted: Collection[KeyPath] = (),
) -> str | None:
    """Return the SQL of the STRUCT of a plain row, NULL for other rows; None if the session has no parser.

    ``text`` is the quoted name of the column with the rows. The STRUCT has the fields ``malformed``,
    ``slots`` with all slots, and ``texts`` with the text of a key, NULL without a key. For keys in
    ``quoted``, quoted numbers fit numeric slots.
    """
    if not is_available(spark):
        return None
    schemas = (
        _schema(_slot_field(slot, quoted) for slot in slots),
        _schema(_field(name, ColumnType.STRING, _key(key)) for name, key in texts.items()),
    )
    name = f"plain_{hashlib.sha256(chr(10).join(schemas).encode()).hexdigest()[:16]}"
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark has no other way to its JVM
    jvm.tideline.split.ParserCatalog.register(name, *schemas)
    return f"{_CATALOG}.{name}({text})"


def _slot_field(slot: Slot, quoted: Collection[KeyPath]) -> dict[str, object]:
    key = slot.key if slot.state is SlotState.LIVE else None
    metadata = _key(key)
    if key in quoted:
        metadata["quoted"] = True
    return _field(slot.name, slot.type, metadata)


def _key(key: KeyPath | None) -> dict[str, object]:
    return {} if key is None else {"key": key.members}


def _field(name: str, column_type: ColumnType, metadata: dict[str, object]) -> dict[str, object]:
    return {"name": name, "type": _TYPES[column_type], "nullable": True, "metadata": metadata}


def _schema(fields: Iterable[dict[str, object]]) -> str:
    return json.dumps({"type": "struct", "fields": list(fields)})


def separate_documents(rows: DataFrame, documents: Documents) -> DataFrame:
    """If ``value`` may hold ``many`` documents, return the rows with one document each. Raises ConfigError if
    the session cannot split them.
    """
    if documents is Documents.ONE:
        return rows
    if not is_available(rows.sparkSession):
        raise ConfigError(
            "consecutive documents in one record cannot be split without Tideline's parser",
            setting=SETTING,
            hint="Remove the setting from flat.NAME.spark.conf, or set flat.NAME.source.documents to 'one'.",
        )
    each = split_documents("value")
    others = [name for name in rows.columns if name not in {"value", "size"}]
    size = ["octet_length(value) AS size"] if "size" in rows.columns else []
    split = rows.selectExpr(f"explode({each}) AS value", *map(quote, others))
    return split.selectExpr("value", *size, *map(quote, others)).select(rows.columns)
