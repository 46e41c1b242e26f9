"""Separates JSON documents that follow each other in one record or line (``{…}{…}``), so that each becomes a row.

Without this, ``get_json_object`` and all columns see the first document only (``streaming.split.splitter`` counts such rows and keeps their
text). Where a document ends is decided by ``java/DocumentsFunction``, which reads no values: a malformed document becomes a
malformed row, and the documents before it are not affected.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import ConfigError
from streaming.settings import Documents
from streaming.split.parse_schema import quote
from streaming.split.plain_rows import SETTING, is_available, split_documents


if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def separate_documents(rows: DataFrame, documents: Documents) -> DataFrame:
    """Return the rows with each document in its own row if ``value`` may hold ``many``. Raises ConfigError if the session cannot split them."""
    if documents is Documents.ONE:
        return rows
    if not is_available(rows.sparkSession):
        raise ConfigError(
            "documents that follow each other in a record cannot be split without Tideline's parser",
            setting=SETTING,
            hint="Remove the setting from flat.NAME.spark.conf, or set flat.NAME.source.documents to 'one'.",
        )
    each = split_documents("value")
    others = [name for name in rows.columns if name not in {"value", "size"}]
    size = ["octet_length(value) AS size"] if "size" in rows.columns else []
    split = rows.selectExpr(f"explode({each}) AS value", *map(quote, others))
    return split.selectExpr("value", *size, *map(quote, others)).select(rows.columns)
