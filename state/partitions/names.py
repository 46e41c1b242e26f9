"""Partition names, the identity of a partition in the metastore: ``ds=2020-01-01/hr=5``.

The characters that Hive escapes are those of its FileUtils; two partitions are the same exactly when their names are, so
``hr=5`` and ``hr=05`` are two, although they stand for one number.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from state.partitions.values import DEFAULT_PARTITION


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


_ESCAPED: Final = re.compile(r"[\x00-\x1f\"#%'*/:=?\\\x7f{\[\]^]")


def partition_name(
    columns: Iterable[str], values: Sequence[str], default_partition: str = DEFAULT_PARTITION
) -> str:
    """Return the name of a partition; an empty value has the default partition's name, as Hive does it."""
    pairs = zip(columns, values, strict=True)
    return "/".join(f"{column}={escape(value) if value else default_partition}" for column, value in pairs)


def escape(text: str) -> str:
    """Return a column name or value as it stands in a partition name."""
    return _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", text)
