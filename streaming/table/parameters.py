"""Parameters that Tideline keeps on a flat table and on its partitions, and the limits of names and texts in a metastore.

Limits are checked here, in the client: a metastore takes 20 seconds of retries to refuse a text that its database has no room
for, and some texts it accepts although no reader can use them (reference: flat-tables-hive4.md §0.8, §1, §7).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from state.columns.names import check_name, fold_case
from state.errors import BadInput, InvalidRequest, LimitExceeded


if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


PREFIX: Final = "tideline."
VERSION: Final = "tideline.schema_version"
"""Of a table: present since its creation, higher after every change; what compare-and-set compares."""
WRITER: Final = "tideline.writer"
"""Of a table: who may change its partitions, and until when."""
PATTERNS: Final = "tideline.partition_patterns"
"""Of a table: a JSON list of strftime patterns, one per partition column."""
LAYOUT_VERSION: Final = "tideline.layout_version"
"""Of a partition: the table's version when its files were last written."""
ROWS: Final = "tideline.rows"
NONNULL: Final = "tideline.nonnull"
"""Of a partition: how many values each slot has, with a mark of the files that this is about."""
SEALED: Final = "tideline.sealed"
BATCHES: Final = "tideline.batches"

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
"""What a planner believes about a partition's files: false after a switch, and the metastore does not correct it (§5)."""
STALE_PREFIX: Final = "spark.sql."
"""Spark's own copy of the schema; where it disagrees with the columns Spark has to guess which is right."""

KEY_CHARS_MAX: Final = 256
VALUE_CHARS_MAX: Final = 4_000
COMMENT_CHARS_MAX: Final = 256


def check_parameters(parameters: Mapping[str, str | None]) -> None:
    """Raise InvalidRequest for a key that is not Tideline's, LimitExceeded for a key or value that is too long."""
    for key, value in parameters.items():
        if not key.startswith(PREFIX):
            raise InvalidRequest("a parameter is not Tideline's to change", key=key[:200])
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
    """Check names and comments; raise BadInput for a name, LimitExceeded for a comment.

    What a name may be and why is ``state.columns.names``; a partition column's name is accepted by the metastore and then
    ambiguous in every query (§1).
    """
    seen: set[str] = set()
    for name, comment in columns:
        check_name(name, partition_columns)
        if fold_case(name) in seen:
            raise BadInput("two columns have one name", column=name)
        seen.add(fold_case(name))
        if len(comment) > COMMENT_CHARS_MAX:
            raise LimitExceeded(
                "a column's comment is too long",
                column=name,
                chars=len(comment),
                limit=COMMENT_CHARS_MAX,
                hint="",
            )


def merge_parameters(old: Mapping[str, str], changes: Mapping[str, str | None]) -> dict[str, str]:
    """Return ``old`` with ``changes`` (None removes), without statistics and without Spark's copy of the schema."""
    kept = {
        key: value
        for key, value in old.items()
        if key not in STATISTICS and not key.startswith(STALE_PREFIX) and key not in changes
    }
    return kept | {key: value for key, value in changes.items() if value is not None}


def select_own(parameters: Mapping[str, str] | None) -> dict[str, str]:
    """Return the parameters that are Tideline's."""
    return {key: value for key, value in (parameters or {}).items() if key.startswith(PREFIX)}


TOUCHED: Final = "tideline.touched"
"""Of a partition: the watermark when rows last came to it; it is sealed no sooner than the lateness after that."""
VALUES: Final = "tideline.values"
"""Of a partition: how many values each slot has (``streaming.table.value_counts``), as the batches told it."""
RAW_BYTES: Final = "tideline.raw_bytes"
"""Of a partition: bytes of the JSON that its rows were."""
FLAT_BYTES: Final = "tideline.flat_bytes"
"""Of a sealed partition: bytes of its files."""
PROMOTION: Final = "tideline.hardening"
"""Of the table: the slots on their way to STRING, and since which version: ``{"slots": [3], "version": 17}``."""
PROMOTED: Final = "tideline.hardened"
"""Of the table: the version since which retained rows in ``_rescued`` may find their column wide enough."""
REPLACED: Final = "tideline.replaced"
"""Of a partition: the directory that it was switched away from, until that is noted for deletion."""
