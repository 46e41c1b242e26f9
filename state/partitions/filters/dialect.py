"""Dialects of the filter language:
Hive versions differ in the filters they accept and in the meaning of LIKE.

Clients write filters for the metastore that they know. ``HIVE_2`` stands for Hive 2.x and 3.x, ``HIVE_4`` for
Hive 4.x.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final


FILTER_CHARS_MAX: Final = 1 << 20
CONDITIONS_MAX: Final = 20_000
"""Comparisons and list items in one filter; Spark sends lists of up to 1,000 values."""
DEPTH_MAX: Final = 100
"""Nested parentheses."""


class HiveVersion(Enum):
    """The version whose grammar and typing rules apply."""

    HIVE_2 = 2
    HIVE_4 = 4


class LikeDialect(Enum):
    """How a LIKE pattern writes wildcards."""

    REGEX = "regex"
    """``.*`` and ``.``: Hive 2 and 3, where JDO evaluates the pattern."""
    SQL = "sql"
    """``%`` and ``_``, escaped by a backslash: Hive 4."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How to read the text of a filter.

    ``ignore_trailing_input``: all Hive versions stop reading at the first possible end, so they read ``p > 1
    && p < 5`` as ``p > 1`` and return too many partitions. Tideline refuses such a filter without this
    option. ``has_escapes``: whether a backslash before a quote keeps a text open, as in all Hive versions.
    Spark writes texts as if it did not. ``all_types``: also allow filters on booleans, floats, decimals and
    bytes (as quoted text), which no metastore does.
    """

    hive_version: HiveVersion = HiveVersion.HIVE_4
    like: LikeDialect = LikeDialect.SQL
    ignore_trailing_input: bool = False
    all_types: bool = False
    has_escapes: bool = True

    @staticmethod
    def of(
        hive_version: HiveVersion, *, ignore_trailing_input: bool = False, all_types: bool = False
    ) -> Dialect:
        """Return the dialect of a Hive version, with its own form of LIKE."""
        like = LikeDialect.REGEX if hive_version is HiveVersion.HIVE_2 else LikeDialect.SQL
        return Dialect(hive_version, like, ignore_trailing_input, all_types)


HIVE_2: Final = Dialect.of(HiveVersion.HIVE_2)
HIVE_4: Final = Dialect.of(HiveVersion.HIVE_4)
UNESCAPED_HIVE_2: Final = Dialect(HiveVersion.HIVE_2, LikeDialect.REGEX, has_escapes=False)
"""The form that Spark writes for Hive 2 and 3: the text ``a\\`` as ``"a\\"``, which no Hive version can
read."""
