"""Guesses which table and which column of users' queries hold the raw JSON, for a first try without configuration.

The column is the first argument of a JSON function, and the table stands behind FROM or JOIN. A guess is good enough for the keys to be
found: the miner then resolves names exactly, and a table that is not raw has no keys.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError
from streaming.mining.miner import Miner
from streaming.mining.model import Form, MiningRules, RawTable


if TYPE_CHECKING:
    from collections.abc import Sequence


TABLES_MAX: Final = 100
_NAME: Final = r"(?:`[^`]+`|[a-z_]\w*)"
_TABLE: Final = re.compile(rf"\b(?:from|join)\s+({_NAME}(?:\s*\.\s*{_NAME})?)", re.IGNORECASE)
_COLUMN: Final = re.compile(
    rf"\b(?:get_json_object|json_tuple|json_extract(?:_scalar)?|json_value|from_json)\s*\(\s*(?:{_NAME}\s*\.\s*)?({_NAME})",
    re.IGNORECASE,
)


def guess_raw_table(texts: Sequence[str]) -> RawTable | None:
    """Return the table of which the queries request the most keys; None if no query requests a key of JSON.

    Names without a database are taken for tables of the database that the other names use most.
    """
    columns = Counter(_clean(name) for text in texts for name in _COLUMN.findall(text))
    named = [_split(name) for text in texts for name in _TABLE.findall(text)]
    databases = Counter(database for database, _ in named if database)
    default_database = databases.most_common(1)[0][0] if databases else "default"
    names = Counter(f"{database or default_database}.{name}" for database, name in named)
    found: Counter[RawTable] = Counter()
    for column, _ in columns.most_common(3):
        tables = [table for name, _ in names.most_common(TABLES_MAX) if (table := _make(name, column))]
        if tables:
            miner = Miner(MiningRules(raw_tables=tuple(tables), default_database=default_database))
            for text in texts:
                found.update(table for table, _ in miner.read(text, Form.SQL, default_database).keys)
    return found.most_common(1)[0][0] if found else None


def _make(name: str, column: str) -> RawTable | None:
    try:
        return RawTable(name, column)
    except ConfigError:
        return None


def _clean(name: str) -> str:
    return name.strip().strip("`").lower()


def _split(name: str) -> tuple[str, str]:
    *database, table = (_clean(part) for part in re.split(r"\s*\.\s*", name))
    return "".join(database), table
