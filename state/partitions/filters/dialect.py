"""Which metastore's filter language is spoken: generations differ in what they accept and in what LIKE means.

Clients send text for the metastore that they know. Generation 2 stands for Hive 2.x and 3.x, 4 for Hive 4.x.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


FILTER_CHARS_MAX: Final = 1 << 20
CONDITIONS_MAX: Final = 20_000
"""Comparisons and list items of one filter; Spark sends lists of up to 1,000 values."""
DEPTH_MAX: Final = 100
"""Nested parentheses."""


class HiveVersion(Enum):
    """Whose grammar and typing rules count."""

    HIVE_2 = 2
    HIVE_4 = 4


class LikeDialect(Enum):
    """What stands for "any text" in a LIKE pattern."""

    REGEX = "regex"
    """``.*`` and ``.``: Hive 2 and 3, where JDO matched."""
    SQL = "sql"
    """``%`` and ``_`` with a backslash as escape: Hive 4."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a filter's text is understood.

    ``ignore_trailing_input``: both generations stop reading where the filter could end (``p > 1 && p < 5`` is ``p > 1`` to
    them) and answer with too much; here such a text is refused unless this is set.
    ``all_types``: also filter on booleans, floats, decimals and bytes (with their text in quotes), which no metastore does.
    """

    hive_version: HiveVersion = HiveVersion.HIVE_4
    like: LikeDialect = LikeDialect.SQL
    ignore_trailing_input: bool = False
    all_types: bool = False

    @staticmethod
    def of(
        hive_version: HiveVersion, *, ignore_trailing_input: bool = False, all_types: bool = False
    ) -> Dialect:
        """Return the dialect of a generation, with its own LIKE."""
        like = LikeDialect.REGEX if hive_version is HiveVersion.HIVE_2 else LikeDialect.SQL
        return Dialect(hive_version, like, ignore_trailing_input, all_types)


HIVE_2: Final = Dialect.of(HiveVersion.HIVE_2)
HIVE_4: Final = Dialect.of(HiveVersion.HIVE_4)
