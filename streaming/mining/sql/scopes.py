"""Scopes: resolves names inside a statement to tables, sub-queries, lateral views and their columns.

Names of tables and columns are compared in lower case, as in Hive and Spark. A column that no known source
has does not come from a raw table. A column that two sources have is ambiguous; the engine would refuse the
statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import RawTable, Unresolved


class Source:
    """A source in FROM whose columns are unknown, or do not come from a raw table."""

    # ARG002, PLR6301: the shape of all sources
    def column(self, name: str, lineage: Lineage) -> tuple[bool, Value]:  # noqa: ARG002, PLR6301
        """Return whether the source is known to have the column, and its value."""
        return False, ()

    def everything(self, lineage: Lineage) -> Iterator[Value]:  # noqa: ARG002, PLR6301 - likewise
        """Yield every column in ``*`` that may come from a raw table."""
        return iter(())


@dataclass(slots=True)
class RawSource(Source):
    """A raw table, or a view over it."""

    table: RawTable
    is_view: bool = False

    def column(self, name: str, lineage: Lineage) -> tuple[bool, Value]:
        """Return its JSON column."""
        if name != self.table.json_column:
            return False, ()
        return True, (lineage.root(self.table, is_view=self.is_view),)

    def everything(self, lineage: Lineage) -> Iterator[Value]:
        """Yield its JSON column."""
        yield (lineage.root(self.table, is_view=self.is_view),)


@dataclass(slots=True)
class DerivedSource(Source):
    """A sub-query or a lateral view. It has named columns, and the columns of sources that it includes with
    ``*``.
    """

    columns: list[tuple[str, Value]] = field(default_factory=list)
    stars: list[Source] = field(default_factory=list)

    def column(self, name: str, lineage: Lineage) -> tuple[bool, Value]:
        """Return a column by name. A named column hides a column of the same name from a star."""
        for column_name, value in self.columns:
            if column_name == name:
                return True, value
        return _first(self.stars, name, lineage)

    def everything(self, lineage: Lineage) -> Iterator[Value]:
        """Yield all columns."""
        for _, value in self.columns:
            yield value
        for source in self.stars:
            yield from source.everything(lineage)

    def rename(self, names: Sequence[str]) -> DerivedSource:
        """Return the same columns under the names of ``AS t (a, b)``."""
        if not names or self.stars:
            return self
        return DerivedSource([(new, value) for new, (_, value) in zip(names, self.columns, strict=False)])


@dataclass(slots=True)
class UnionSource(Source):
    """Both sides of a UNION: the value of a column combines both sides."""

    left: Source
    right: Source

    def column(self, name: str, lineage: Lineage) -> tuple[bool, Value]:
        """Return a column by name from both sides; on the right, by its index if all columns of the left are
        named.
        """
        has, value = self.left.column(name, lineage)
        other = self._matching_value(name, lineage)
        if value is None or other is None:
            return True, None
        return has or bool(other), (*value, *other)

    def everything(self, lineage: Lineage) -> Iterator[Value]:
        """Yield the columns of both sides."""
        yield from self.left.everything(lineage)
        yield from self.right.everything(lineage)

    def _matching_value(self, name: str, lineage: Lineage) -> Value:
        left, right = _known_names(self.left), _known_names(self.right)
        if left is not None and right is not None:
            index = next((at for at, column_name in enumerate(left) if column_name == name), -1)
            return _column_at(self.right, index) if index >= 0 else ()
        return self.right.column(name, lineage)[1]


@dataclass(slots=True)
class Scope:
    """The names of one SELECT. ``parent`` is the enclosing query, for correlated sub-queries and
    multi-inserts.
    """

    queries: dict[str, Source]
    """Common table expressions, and views created earlier in the script."""
    parent: Scope | None = None
    sources: dict[tuple[str, ...], Source] = field(default_factory=dict)
    aliases: dict[str, Value] = field(default_factory=dict)
    """The SELECT's own columns, which GROUP BY, ORDER BY and (in Spark) later columns may use."""

    def add(self, source: Source, *names: tuple[str, ...]) -> None:
        """Add a source under all ``names``. Its columns are visible even without a name."""
        for name in names or ((f"#{len(self.sources)}",),):
            self.sources[name] = source

    def resolve(self, parts: Sequence[str], lineage: Lineage) -> tuple[Value, int]:
        """Return the value of a dotted name, and the number of its parts that name the column; the remaining
        parts are fields.
        """
        scope: Scope | None = self
        while scope is not None:
            value = scope.resolve_here(parts, lineage)
            if value is not None:
                return value
            scope = scope.parent
        return (), len(parts)

    def distinct_sources(self) -> list[Source]:
        """Return every source once."""
        return list({id(source): source for source in self.sources.values()}.values())

    def resolve_here(self, parts: Sequence[str], lineage: Lineage) -> tuple[Value, int] | None:
        """Resolve a name in this scope only; None if the scope does not have the name."""
        names = [part.lower() for part in parts]
        for length in range(min(3, len(parts) - 1), 0, -1):
            source = self.sources.get(tuple(names[:length]))
            if source is not None:
                return source.column(names[length], lineage)[1], length + 1
        name, values = names[0], []
        for each in self.distinct_sources():
            has, value = each.column(name, lineage)
            if has:
                values.append(value)
        if len(values) > 1:
            lineage.unresolved[Unresolved.AMBIGUOUS] += 1
            return AMBIGUOUS, 1
        if values:
            return values[0], 1
        return (self.aliases[name], 1) if name in self.aliases else None


AMBIGUOUS: Final[Value] = ()
"""The value of an ambiguous name. The name has been counted and is not followed."""


def _column_at(source: Source, index: int) -> Value:
    """Return the column at ``index`` of a source that has only named columns."""
    columns = source.columns if isinstance(source, DerivedSource) else []
    if isinstance(source, UnionSource):
        left, right = _column_at(source.left, index), _column_at(source.right, index)
        return None if left is None or right is None else (*left, *right)
    return columns[index][1] if index < len(columns) else ()


def _known_names(source: Source) -> list[str] | None:
    """Return the names of the columns if all are known."""
    if isinstance(source, UnionSource):
        return _known_names(source.left)
    if isinstance(source, DerivedSource) and not source.stars:
        return [name for name, _ in source.columns]
    return None


def _first(sources: list[Source], name: str, lineage: Lineage) -> tuple[bool, Value]:
    for source in sources:
        has, value = source.column(name, lineage)
        if has:
            return True, value
    return False, ()
