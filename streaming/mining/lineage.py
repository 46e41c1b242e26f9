"""Where a value comes from: the raw column it was taken out of, and by which members.

``u = get_json_object(json, '$.user')`` and then ``get_json_object(u, '$.id')`` asks for ``user.id``, and for ``user`` only if ``u``
is used for itself too. So a value remembers whether something was taken out of it (``is_base``) and whether it was used
(``is_used``); what becomes a key is decided when the whole text has been read.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from state.columns.paths import KeyPath
from state.errors import BadInput
from streaming.mining.json_functions import Path
from streaming.mining.model import MinedKeys, Unresolved


if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.mining.model import Parser, RawTable

Schema = dict[str, Any]
"""Field names to the schema below them, or to None where that is no struct."""


@dataclass(slots=True, eq=False)
class Origin:
    """A value taken out of a raw column; with no members, the column itself."""

    table: RawTable
    members: tuple[str, ...] = ()
    is_parsed: bool = False
    """It is a struct or a variant, whose fields are reached with a dot."""
    ends_in_array: bool = False
    is_view: bool = False
    schema: Schema | None = None
    is_base: bool = False
    is_used: bool = False


Value = tuple[Origin, ...] | None
"""A column or expression: the raw values it is (several behind a UNION); none of ours; or None, which cannot be followed."""


@dataclass(slots=True)
class Lineage:
    """All values of one text, in the making."""

    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    _origins: list[Origin] = field(default_factory=list)

    def root(self, table: RawTable, *, is_view: bool = False) -> Origin:
        """A reference to the raw column."""
        return self._kept(Origin(table, is_view=is_view))

    def below(self, document: Value, path: Path | Unresolved) -> Value:
        """What ``path`` takes out of ``document``."""
        if document is None:
            self.unresolved[Unresolved.EXPRESSION] += 1
            return None
        for base in document:
            base.is_base = True
        if any(base.is_view for base in document):
            self.unresolved[Unresolved.VIEW] += 1
            return None
        if isinstance(path, Unresolved):
            if document:
                self.unresolved[path] += 1
            return None if document else ()
        return tuple(self._below(base, path) for base in document)

    def parsed(self, document: Value, schema: Schema | None) -> Value:
        """``from_json(document, schema)`` and its like: the same place, as a struct."""
        if document is None:
            self.unresolved[Unresolved.EXPRESSION] += 1
            return None
        for base in document:
            base.is_base = True
        return tuple(
            self._kept(
                Origin(
                    each.table, each.members, True, each.ends_in_array, is_view=each.is_view, schema=schema
                )
            )
            for each in document
        )

    def fields(self, value: Value, names: Iterable[str]) -> Value:
        """``value.a.b``; none of ours where the value is a text."""
        for name in names:
            if value is None:
                return None
            if not all(each.is_parsed for each in value):
                return ()
            value = self.below(value, Path((name,)))
        return value

    def element(self, base: Origin) -> Origin:
        """``value[0]``: within the array's key."""
        base.is_base = True
        return self._kept(
            Origin(
                base.table,
                base.members,
                base.is_parsed,
                ends_in_array=bool(base.members),
                is_view=base.is_view,
            )
        )

    def use(self, value: Value) -> None:
        """The value is used for itself."""
        for each in value or ():
            each.is_used = True

    def result(self, parser: Parser) -> MinedKeys:
        """Return what the whole text asks for."""
        found: set[tuple[str, KeyPath]] = set()
        tables: dict[str, RawTable] = {}
        for origin in self._origins:
            if origin.is_used or ((origin.members or origin.schema) and not origin.is_base):
                tables[origin.table.name] = origin.table
                found.update((origin.table.name, key) for key in self._asked(origin))
        keys = tuple((tables[name], key) for name, key in sorted(found))
        return MinedKeys(keys, self.unresolved, parser)

    def _below(self, base: Origin, path: Path) -> Origin:
        if base.ends_in_array:
            return self._kept(Origin(base.table, base.members, is_parsed=True, ends_in_array=True))
        members, schema = path.members, base.schema
        if schema is not None:
            # Spark resolves a struct's fields without regard to case; the event's own spelling stands in the schema.
            name = next((known for known in schema if known.lower() == members[0].lower()), members[0])
            members, schema = (name, *members[1:]), schema.get(name)
        return self._kept(Origin(base.table, base.members + members, True, path.ends_in_array, schema=schema))

    def _kept(self, origin: Origin) -> Origin:
        self._origins.append(origin)
        return origin

    def _asked(self, origin: Origin) -> Iterable[KeyPath]:
        if origin.is_view:
            self.unresolved[Unresolved.VIEW] += 1
            return
        try:
            if origin.schema and not origin.ends_in_array:
                yield from [KeyPath((*origin.members, name)) for name in origin.schema]
            elif origin.members:
                yield KeyPath(origin.members)
            else:
                self.unresolved[Unresolved.WHOLE] += 1
        except BadInput:  # the members together are beyond what a key may be
            self.unresolved[Unresolved.BAD_PATH] += 1
