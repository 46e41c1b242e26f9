"""Tideline's parameters of a flat table and its partitions, and the metastore's limits of names and texts.

Tideline checks the limits itself. A metastore retries for 20 seconds before it refuses a text that is too
long for its database, and it accepts some texts that no reader can use (reference: flat-tables-hive4.md §0.8,
§1, §7).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from state.columns.names import check_name, fold_case
from state.errors import BadInput, InvalidRequest, LimitExceeded


PREFIX: Final = "tideline."

VERSION: Final = "tideline.schema_version"
"""Table: set at creation and raised by every change; compare-and-set compares it."""
WRITER: Final = "tideline.writer"
"""Table: who may change its partitions, and until when."""
PATTERNS: Final = "tideline.partition_patterns"
"""Table: a JSON list of strftime patterns, one per partition column."""
PROMOTION: Final = "tideline.promoting"
"""Table: the slots under promotion to STRING, and the version that began it:
``{"slots": [3], "version": 17}``."""
ANNOUNCED: Final = "tideline.promotions_announced"
"""Table: the slots whose promotion to STRING is announced, and since when: ``{"3": 1795170600}``."""
NARROWING: Final = "tideline.narrowing"
"""Table: the STRING slots that become numeric, and the version that began it:
``{"types": {"3": "int"}, "version": 17}``."""
LAST_NARROWING: Final = "tideline.narrowed"
"""Table: the version since which new files hold the numbers of narrowed columns as numbers; older hours hold
them as text."""
PROMOTED: Final = "tideline.promoted"
"""Table: the slots whose type changed between STRING and a number recently, and until when queries planned
before that may run: ``{"slots": [3], "until_s": 1}``; ``"narrowed": true`` if the change was to a number."""
LAST_PROMOTION: Final = "tideline.last_promotion"
"""Table: the version of the last completed promotion; values in ``_rescued`` of older hours may fit now."""
_FORMER: Final = {"tideline.hardening": PROMOTION, "tideline.hardened": LAST_PROMOTION}
"""Names in tables of earlier builds. They are read under the current names, and the next change of the table
renames them."""

LAYOUT_VERSION: Final = "tideline.layout_version"
"""Partition: the table's version when its files were last written."""
ROWS: Final = "tideline.rows"
"""Partition: number of rows."""
VALUES: Final = "tideline.values"
"""Partition: values of each slot, added up by the batches (``value_counts``)."""
NONNULL: Final = "tideline.nonnull"
"""Partition: values of each slot, with a digest of the files counted (``value_counts``)."""
RAW_BYTES: Final = "tideline.raw_bytes"
"""Partition: bytes of the JSON of its rows."""
FLAT_BYTES: Final = "tideline.flat_bytes"
"""Sealed partition: bytes of its files."""
BATCHES: Final = "tideline.batches"
"""Partition: the last batch added to its counts."""
TOUCHED: Final = "tideline.touched"
"""Partition: the watermark when rows last arrived. The hour is sealed at the earliest when the lateness has
passed since."""
SEALED: Final = "tideline.sealed"
"""Partition: ``true`` after compaction, removed when rows arrive later."""
REPLACED: Final = "tideline.replaced"
"""Partition: the directory that it was switched away from, until that directory is noted for deletion."""

STATISTICS: Final = frozenset(
    {
        "numRows",
        "rawDataSize",
        "totalSize",
        "numFiles",
        "numFilesErasureCoded",
        "COLUMN_STATS_ACCURATE",
    }
)
"""Statistics of a partition's files. They are wrong after a switch, and the metastore does not correct them
(flat-tables-hive4.md §5)."""
STALE_PREFIX: Final = "spark.sql."
"""Spark's own copy of the schema; if it differs from the columns, Spark has to guess which of the two is
right."""

KEY_CHARS_MAX: Final = 256
VALUE_CHARS_MAX: Final = 4_000
COMMENT_CHARS_MAX: Final = 256


def check_parameters(parameters: Mapping[str, str | None]) -> None:
    """Raise InvalidRequest for a key without Tideline's prefix, LimitExceeded for a key or value that is too
    long.
    """
    for key, value in parameters.items():
        if not key.startswith(PREFIX):
            raise InvalidRequest("a table parameter must begin with 'tideline.'", key=key[:200])
        if len(key) > KEY_CHARS_MAX or len(value or "") > VALUE_CHARS_MAX:
            raise LimitExceeded(
                "a table parameter is too long",
                key=key[:200],
                chars=len(value or ""),
                limit_key=KEY_CHARS_MAX,
                limit_value=VALUE_CHARS_MAX,
                hint="",
            )


def check_columns(columns: Iterable[tuple[str, str]], partition_columns: Collection[str]) -> None:
    """Check names and comments of columns. Raises BadInput for a name, LimitExceeded for a comment.

    ``state.columns.names`` defines valid names. A data column must not have the name of a partition column:
    the metastore accepts that, but every query would find the name ambiguous (flat-tables-hive4.md §1).
    """
    names: set[str] = set()
    for name, comment in columns:
        check_name(name, partition_columns)
        if fold_case(name) in names:
            raise BadInput("two columns have the same name", column=name)
        names.add(fold_case(name))
        if len(comment) > COMMENT_CHARS_MAX:
            raise LimitExceeded(
                "a column's comment is too long",
                column=name,
                chars=len(comment),
                limit=COMMENT_CHARS_MAX,
                hint="",
            )


def merge_parameters(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return ``old`` with ``changes`` (None removes a parameter), without statistics and Spark's copy of the
    schema.

    Parameters of earlier builds get their current names.
    """
    unchanged = {
        key: value
        for key, value in rename_former(old).items()
        if key not in STATISTICS and not key.startswith(STALE_PREFIX) and key not in changes
    }
    return unchanged | {key: value for key, value in changes.items() if value is not None}


def select_own(parameters: Mapping[str, str] | None) -> dict[str, str]:
    """Return Tideline's own parameters out of ``parameters``."""
    return {key: value for key, value in (parameters or {}).items() if key.startswith(PREFIX)}


def rename_former(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return ``parameters``, with those of an earlier build under their current names."""
    return {_FORMER.get(key, key): value for key, value in parameters.items()}
