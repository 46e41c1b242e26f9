"""What the key log must know of a flat table. Loads no database library, because the configuration builds it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from state.columns.rules import FlatRules


@dataclass(frozen=True, slots=True)
class KeyedTable:
    """A flat table whose columns follow the keys that users query in a raw table."""

    table: str
    """``db.table``, as is ``raw_table``."""
    raw_table: str
    rules: FlatRules
    """As configured; decisions in the key log are added."""
