"""Makes schemas with which Spark's JSON reader extracts all keys in as few parses of a row as possible.

One ``get_json_object`` per key would read the row once per key. ``from_json`` into nested STRUCTs reads it
once for all keys, at a sixth of the cost for 30 keys (docs/SPLITTING.md). A field is either a STRUCT or a
STRING, so a key that contains another requested key needs its own parse. Keys are therefore distributed over
as many parses as the longest chain of nested keys.

Schemas use Spark's JSON form of a type, and fields are addressed in SQL by quoted names. So every member name
that JSON allows is safe, with any case, dots, slashes, backticks and script. This module does not need Spark.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from state.columns.paths import KeyPath
from state.columns.types import ColumnType


READ_AS: Final = {
    ColumnType.TINYINT: "short",
    ColumnType.SMALLINT: "short",
    ColumnType.INT: "integer",
    ColumnType.BIGINT: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.STRING: "string",
    ColumnType.BOOLEAN: "boolean",
}
"""The type for parsing a column. Bytes become shorts, because the reader accepts 128 to 255 as negative
bytes."""


@dataclass(frozen=True, slots=True)
class Parse:
    """One parse of the row: keys that do not contain each other, with the types of their columns."""

    types: Mapping[KeyPath, ColumnType]

    @property
    def has_typed(self) -> bool:
        """Whether some value may not fit its column; a STRING accepts any value."""
        return any(column_type is not ColumnType.STRING for column_type in self.types.values())

    @property
    def doubt(self) -> str:
        """The name of the field in which the reader stores the row's text if a value did not fit. No key
        begins with this name.
        """
        name, first_members = "_doubt", {key.members[0] for key in self.types}
        while name in first_members:
            name += "_"
        return name

    def typed_schema(self) -> str:
        """Return Spark's JSON of the STRUCT in which every key has its own type."""
        return self._schema(dict(self.types))

    def text_schema(self) -> str:
        """Return Spark's JSON of the STRUCT in which every key is text."""
        return self._schema(dict.fromkeys(self.types, ColumnType.STRING))

    def _schema(self, types: Mapping[KeyPath, ColumnType]) -> str:
        members = {key.members: READ_AS[column_type] for key, column_type in types.items()}
        return json.dumps(_build_struct(members | {(self.doubt,): "string"}))


def plan_parses(types: Mapping[KeyPath, ColumnType]) -> tuple[Parse, ...]:
    """Distribute the keys over parses: the first has the keys inside no other key, each further one the next
    level.

    There is always at least one parse, which finds malformed rows even without keys.
    """
    prefixes = {key.members for key in types}
    levels: list[dict[KeyPath, ColumnType]] = [{}]
    for key, column_type in types.items():
        level = sum(key.members[:depth] in prefixes for depth in range(1, key.depth))
        levels.extend({} for _ in range(level + 1 - len(levels)))
        levels[level][key] = column_type
    return tuple(map(Parse, levels))


def quote(name: str) -> str:
    """Return a name as a quoted SQL identifier, in which only the backtick needs an escape."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """Return a text as a SQL literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def field_path(root: str, members: Iterable[str]) -> str:
    """Return the SQL of the field at the path ``members`` below the SQL expression ``root``."""
    return ".".join((root, *map(quote, members)))


def _build_struct(types: Mapping[tuple[str, ...], str]) -> dict[str, object]:
    below: dict[str, dict[tuple[str, ...], str]] = {}
    for members, read_as in types.items():
        below.setdefault(members[0], {})[members[1:]] = read_as
    return {
        "type": "struct",
        "fields": [
            _build_field(name, inner.get(()) or _build_struct(inner)) for name, inner in below.items()
        ],
    }


def _build_field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}
