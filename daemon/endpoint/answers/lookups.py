"""Finds the partitions of a call, in the order of names, in one view of a table.

Each function returns a ``Selection``, from which the names or the payloads are read. It raises NotAnswered where the metastore's answer
may differ, and the errors of the index.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import unquote

from daemon.endpoint.answers.filter_certainty import (
    WILDCARDS,
    TypedColumns,
    find_doubt,
    has_default_text,
    has_padded_text,
)
from daemon.endpoint.answers.table_access import NotAnswered, Reason
from state.partitions.filters.dialect import HIVE_4
from state.partitions.filters.hive_expressions import translate
from state.partitions.index.metastore_calls import PartitionCalls
from state.partitions.index.partition_index import NO_LIMIT


if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from daemon.endpoint.answers.arguments import Arguments
    from daemon.endpoint.answers.server_rules import ServerRules
    from daemon.endpoint.answers.table_access import TableView
    from state.partitions.index.prepared_filters import PreparedFilter


T = TypeVar("T")
_STRUCTS: Final = re.compile(r"\bstruct\b", re.IGNORECASE)
_REGEX: Final = re.compile(r"[^\w=:/ -]", re.ASCII)
_ANY: Final = b"[^/]*"
_HIGH: Final = re.compile(rb"[\xee\xef]")
_BEYOND: Final = re.compile(rb"[\xf0-\xf4]")
"""The first bytes of characters from U+E000 on, and of those beyond U+FFFF."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions that a plan finds, whose names match ``keep``, up to ``limit``."""

    prepared: PreparedFilter
    limit: int = NO_LIMIT
    keep: re.Pattern[bytes] | None = None
    typed: TypedColumns | None = None
    """Columns whose values must be written in the only form that a metastore finds."""

    def names(self, view: TableView) -> list[bytes]:
        """Return the names, in order; raise NotAnswered."""
        names = view.index.find_names(self.prepared, self._limit)
        if self.keep is not None:
            names = self._cut(list(filter(self.keep.fullmatch, names)))
        self._check(names)
        _check_order(names, is_cut=self.limit >= 0)
        return names

    def payloads(self, view: TableView) -> list[bytes]:
        """Return the payloads, in the order of names; raise NotAnswered."""
        if self._limit < 0:
            found = view.index.find_payloads(self.prepared)
            if self.keep is not None:
                keep = self.keep.fullmatch
                found = self._cut([pair for pair in found if keep(pair[0])])
            self._check(name for name, _ in found)
            _check_order([name for name, _ in found])
            return [payload for _, payload in found]
        rows = view.index.find_rows(self.prepared, self._limit)
        self._check(name for name, _ in rows)
        _check_order([name for name, _ in rows], is_cut=True)
        return _read(view, [row for _, row in rows])

    @property
    def _limit(self) -> int:
        return self.limit if self.keep is None else NO_LIMIT

    def _cut(self, found: list[T]) -> list[T]:
        return found if self.limit < 0 else found[: self.limit]

    def _check(self, names: Iterable[bytes]) -> None:
        if self.typed is not None and not self.typed.are_canonical(names):
            raise NotAnswered(Reason.NOT_CERTAIN)


@dataclass(frozen=True, slots=True)
class Listed:
    """Partitions that are listed by name or values: (name, row) in the order of names. Some may not exist."""

    rows: list[tuple[bytes, bytes]]

    def names(self, view: TableView) -> list[bytes]:
        """Return the names of those that exist."""
        _check_order([name for name, _ in self.rows])
        stored = view.index.payloads(view.index.table(view.name), [row for _, row in self.rows])
        return [name for (name, _), payload in zip(self.rows, stored, strict=True) if payload is not None]

    def payloads(self, view: TableView) -> list[bytes]:
        """Return the payloads of those that exist."""
        _check_order([name for name, _ in self.rows])
        return _read(view, [row for _, row in self.rows])


def _check_order(names: Sequence[bytes], *, is_cut: bool = False) -> None:
    """Raise NotAnswered if the order of these names depends on the database: Derby compares UTF-16 units.

    ``is_cut``: they are the first of several, so names that are not here may come before one of them.
    """
    joined = b"".join(names)
    if joined.isascii():
        return
    found = [one.search(joined) is not None for one in (_HIGH, _BEYOND)]
    if any(found) if is_cut else all(found):
        raise NotAnswered(Reason.NOT_CERTAIN)


def _read(view: TableView, rows: list[bytes]) -> list[bytes]:
    stored = view.index.payloads(view.index.table(view.name), rows)
    return [payload for payload in stored if payload is not None]


def find_all(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:  # noqa: ARG001 - the same for all lookups
    """Find all partitions."""
    return Selection(view.index.prepare(view.name, ""), arguments.limit)


def find_by_filter(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    """Find the partitions that a filter selects."""
    assert rules.dialect is not None
    text = arguments.filter or ""
    if _STRUCTS.search(text):
        raise NotAnswered(Reason.NOT_CERTAIN)  # Hive 4 reads lists of exactly two structs
    prepared = view.index.prepare(view.name, text, rules.dialect)
    node = prepared.tree
    typed = TypedColumns.of(prepared.table, node)
    if find_doubt(node, prepared.table.key_schema, rules.dialect) or typed.has_invalid(view.index):
        raise NotAnswered(Reason.NOT_CERTAIN)
    if has_padded_text(view.index, prepared.table, node):
        raise NotAnswered(Reason.NOT_CERTAIN)
    return Selection(prepared, arguments.limit, typed=typed)


def find_by_expr(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    """Find the partitions that Hive's expression selects."""
    table = view.index.table(view.name)
    default = table.key_schema.default_partition
    if arguments.default_partition not in {None, default}:
        raise NotAnswered(Reason.ARGUMENTS)
    if arguments.limit >= 0:
        raise NotAnswered(
            Reason.NOT_CERTAIN
        )  # Hive 4 ignores the limit where it evaluates the expression for each name
    if arguments.tree is None or not rules.is_hive_4:
        raise NotAnswered(Reason.EXPRESSION)
    translation = translate(arguments.tree, default)
    node = translation.filter
    if node is None or not translation.is_exact:
        raise NotAnswered(Reason.EXPRESSION)
    prepared = view.index.prepare_node(table, node)
    typed = TypedColumns.of(table, node)
    if find_doubt(node, table.key_schema, HIVE_4) or typed.has_invalid(view.index):
        raise NotAnswered(Reason.NOT_CERTAIN)
    if has_default_text(view.index, table, node) or has_padded_text(view.index, table, node):
        raise NotAnswered(Reason.NOT_CERTAIN)
    return Selection(prepared, typed=typed)


def find_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    """Find the partitions of a partial specification: one value for each column, "" for any."""
    if arguments.limit >= 0 and not rules.is_hive_4:
        raise NotAnswered(Reason.NOT_CERTAIN)  # of some, in the order in which its database returns them
    default = view.index.table(view.name).key_schema.default_partition
    if any(value != default and WILDCARDS.search(value) for value in arguments.values or ()):
        raise NotAnswered(Reason.NOT_CERTAIN)  # a metastore finds similar values, too
    return _find_specified(view, arguments, rules)


def find_names_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    """Find the names of a partial specification, which Hive 4 compares exactly."""
    if arguments.limit >= 0:
        raise NotAnswered(
            Reason.NOT_CERTAIN
        )  # it takes the names in the order in which its database returns them
    return _find_specified(view, arguments, rules)


def _find_specified(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    values = arguments.values or []
    if len(values) != len(view.index.table(view.name).key_schema.columns):
        raise NotAnswered(Reason.ARGUMENTS)  # the last value of a short one is a prefix
    if not rules.is_hive_4 and any(_REGEX.search(value) for value in values):
        raise NotAnswered(Reason.NOT_CERTAIN)  # read as a regular expression
    prepared, expected = PartitionCalls(view.index).prepare_ps(view.name, values)
    if not any(expected):
        return Selection(prepared, arguments.limit)
    parts = (_ANY if part is None else re.escape(part.encode(errors="surrogatepass")) for part in expected)
    return Selection(prepared, arguments.limit, keep=re.compile(b"/".join(parts)))


def find_ps_or_all(view: TableView, arguments: Arguments, rules: ServerRules) -> Selection:
    """Find the partitions of a partial specification; all of them without one."""
    find = find_all if arguments.values is None else find_ps
    return find(view, arguments, rules)


def find_by_names(view: TableView, arguments: Arguments, rules: ServerRules) -> Listed:  # noqa: ARG001 - the same for all lookups
    """Find partitions by their names; absent ones are left out, and repeated ones are found once."""
    return _named(view, arguments.names or ())


def find_by_name(view: TableView, arguments: Arguments, rules: ServerRules) -> Listed:  # noqa: ARG001 - the same for all lookups
    """Find the partition with this name."""
    return _named(view, [arguments.name or ""])


def find_by_values(view: TableView, arguments: Arguments, rules: ServerRules) -> Listed:  # noqa: ARG001 - the same for all lookups
    """Find the partition with these values."""
    values = arguments.values or ()
    schema = view.index.table(view.name).key_schema
    if len(values) != len(schema.columns):
        raise NotAnswered(Reason.REFUSED)
    return Listed([(b"", schema.row(values))])


def _named(view: TableView, names: Iterable[str]) -> Listed:
    schema = view.index.table(view.name).key_schema
    rows = {}
    for name in names:
        parts = [part.partition("=")[2] for part in name.split("/")]
        values = [unquote(part, "latin-1") for part in parts] if "%" in name else parts
        if len(values) == len(schema.columns) and schema.name(values) == name:
            rows[name.encode(errors="surrogatepass")] = schema.row(values, name=name)
    return Listed(sorted(rows.items()))
