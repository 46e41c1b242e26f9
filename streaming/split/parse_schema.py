"""Keys as schemas of Spark's JSON reader: one parse of a row gives all of them.

``get_json_object`` per key reads the row once per key; ``from_json`` into nested STRUCTs reads it once for all, and is six
times cheaper at 30 keys (docs/SPLITTING.md). A key that another asked key lies within needs a parse of its own, because a field
is either a STRUCT or a STRING; so keys are dealt out to as few parses as the longest chain of ancestors has.

Schemas are written as Spark's JSON form of a type, and fields are reached by SQL with quoted names: any member name that JSON
can hold is safe, whatever its case, dots, slashes, backticks or script. Nothing here needs Spark.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.columns.types import ColumnType


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.columns.paths import KeyPath


READ_AS: Final = {
    ColumnType.TINYINT: "short",
    ColumnType.SMALLINT: "short",
    ColumnType.INT: "integer",
    ColumnType.BIGINT: "long",
    ColumnType.DOUBLE: "double",
    ColumnType.STRING: "string",
    ColumnType.BOOLEAN: "boolean",
}
"""How a column's values are parsed. Bytes are read as shorts: the reader lets 128 to 255 through as negative bytes."""


@dataclass(frozen=True, slots=True)
class Parse:
    """One parse of the row: keys of which none lies within another, with the types that they are read as."""

    types: Mapping[KeyPath, ColumnType]

    @property
    def has_typed(self) -> bool:
        """Whether a value can fail to fit: a STRING takes anything."""
        return any(column_type is not ColumnType.STRING for column_type in self.types.values())

    @property
    def doubt(self) -> str:
        """A field name that no key begins with: there the reader leaves the row's text where something did not fit."""
        name, taken = "_doubt", {key.members[0] for key in self.types}
        while name in taken:
            name += "_"
        return name

    def typed_schema(self) -> str:
        """Spark's JSON of the STRUCT with every key read as its type."""
        return self._schema(dict(self.types))

    def text_schema(self) -> str:
        """Spark's JSON of the STRUCT with every key read as text."""
        return self._schema(dict.fromkeys(self.types, ColumnType.STRING))

    def _schema(self, types: Mapping[KeyPath, ColumnType]) -> str:
        members = {key.members: READ_AS[column_type] for key, column_type in types.items()}
        return json.dumps(_struct(members | {(self.doubt,): "string"}))


def plan_parses(types: Mapping[KeyPath, ColumnType]) -> tuple[Parse, ...]:
    """Deal the keys out: the first parse takes those that lie within no other, each next one a level deeper.

    There is always at least one, so that malformed rows are found even where no key is asked.
    """
    prefixes = {key.members for key in types}
    levels: list[dict[KeyPath, ColumnType]] = [{}]
    for key, column_type in types.items():
        level = sum(key.members[:depth] in prefixes for depth in range(1, key.depth))
        levels.extend({} for _ in range(level + 1 - len(levels)))
        levels[level][key] = column_type
    return tuple(map(Parse, levels))


def is_expressible(key: KeyPath) -> bool:
    """Whether a schema can name the key: half a surrogate pair is no character, so no JSON text in UTF-8 holds it."""
    return not any("\ud800" <= char <= "\udfff" for member in key.members for char in member)


def quote(name: str) -> str:
    """Return a name as SQL's identifier; inside backticks only the backtick itself is special."""
    return "`" + name.replace("`", "``") + "`"


def field_path(root: str, members: Iterable[str]) -> str:
    """Return the SQL of the field of ``root`` that the members lead to."""
    return ".".join(map(quote, (root, *members)))


def _struct(types: Mapping[tuple[str, ...], str]) -> dict[str, object]:
    below: dict[str, dict[tuple[str, ...], str]] = {}
    for members, read_as in types.items():
        below.setdefault(members[0], {})[members[1:]] = read_as
    return {
        "type": "struct",
        "fields": [_field(name, inner.get(()) or _struct(inner)) for name, inner in below.items()],
    }


def _field(name: str, kind: object) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": True, "metadata": {}}
