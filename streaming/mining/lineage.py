"""Lineage: the raw column that a value was extracted from, and the members that lead to it.

``u = get_json_object(json, '$.user')`` followed by ``get_json_object(u, '$.id')`` requests ``user.id``. It
requests ``user`` only if ``u`` itself is used too. Each value therefore records whether the query extracts
something from it (``is_base``) and uses it (``is_used``). The keys follow once the whole text has been read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from state.columns.paths import KeyPath
from state.errors import BadInput
from streaming.mining.json_functions import Path, Schema
from streaming.mining.model import MinedKeys, Parser, RawTable, Unresolved


@dataclass(slots=True, eq=False)
class ValueOrigin:
    """A value extracted from a raw column. Without members, it is the column itself."""

    table: RawTable
    members: tuple[str, ...] = ()
    is_parsed: bool = False
    """Whether it is a struct or a variant, whose fields are accessed with a dot."""
    ends_in_array: bool = False
    is_view: bool = False
    schema: Schema | None = None
    is_base: bool = False
    is_used: bool = False


Value = tuple[ValueOrigin, ...] | None
"""The value of a column or expression: its raw origins (several after a UNION), () for other data, None if it
cannot be followed."""


@dataclass(slots=True)
class Lineage:
    """Collects the values of one text."""

    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    _origins: list[ValueOrigin] = field(default_factory=list)

    def root(self, table: RawTable, *, is_view: bool = False) -> ValueOrigin:
        """Return the value of the raw column itself."""
        return self._add(ValueOrigin(table, is_view=is_view))

    def below(self, document: Value, path: Path | Unresolved) -> Value:
        """Return the value that ``path`` extracts from ``document``."""
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

    def parse(self, document: Value, schema: Schema | None) -> Value:
        """Return the struct that ``from_json(document, schema)`` makes of a document."""
        if document is None:
            self.unresolved[Unresolved.EXPRESSION] += 1
            return None
        for base in document:
            base.is_base = True
        return tuple(
            self._add(
                ValueOrigin(
                    each.table, each.members, True, each.ends_in_array, is_view=each.is_view, schema=schema
                )
            )
            for each in document
        )

    def fields(self, value: Value, names: Iterable[str]) -> Value:
        """Return the value of ``value.a.b``; () if ``value`` is a text."""
        for name in names:
            if value is None:
                return None
            if not all(each.is_parsed for each in value):
                return ()
            value = self.below(value, Path((name,)))
        return value

    def element(self, base: ValueOrigin) -> ValueOrigin:
        """Return the value of ``value[0]``, which belongs to the key of the array."""
        base.is_base = True
        return self._add(
            ValueOrigin(
                base.table,
                base.members,
                base.is_parsed,
                ends_in_array=bool(base.members),
                is_view=base.is_view,
            )
        )

    def use(self, value: Value) -> None:
        """Mark a value as used itself."""
        for each in value or ():
            each.is_used = True

    def result(self, parser: Parser) -> MinedKeys:
        """Return the keys that the whole text requests."""
        found: set[tuple[str, KeyPath]] = set()
        tables: dict[str, RawTable] = {}
        for origin in self._origins:
            if origin.is_used or ((origin.members or origin.schema) and not origin.is_base):
                tables[origin.table.name] = origin.table
                found.update((origin.table.name, key) for key in self._requested_keys(origin))
        keys = tuple((tables[name], key) for name, key in sorted(found))
        return MinedKeys(keys, self.unresolved, parser)

    def _below(self, base: ValueOrigin, path: Path) -> ValueOrigin:
        if base.ends_in_array:
            return self._add(ValueOrigin(base.table, base.members, is_parsed=True, ends_in_array=True))
        members, schema = path.members, base.schema
        if schema is not None:
            # Spark ignores case when it resolves a struct's fields; the schema has the spelling of the
            # events.
            name = next((member for member in schema if member.lower() == members[0].lower()), members[0])
            members, schema = (name, *members[1:]), schema.get(name)
        return self._add(
            ValueOrigin(base.table, base.members + members, True, path.ends_in_array, schema=schema)
        )

    def _add(self, origin: ValueOrigin) -> ValueOrigin:
        self._origins.append(origin)
        return origin

    def _requested_keys(self, origin: ValueOrigin) -> Iterable[KeyPath]:
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
        except BadInput:  # together, the members exceed the limits of a key
            self.unresolved[Unresolved.BAD_PATH] += 1
