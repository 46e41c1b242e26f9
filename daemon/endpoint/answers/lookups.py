"""Looks up the partitions of a call in the index, unless the metastore's answer may differ.

Each function returns a ``CheckedSelection``, for reading names or payloads. It raises NotAnswered if the
metastore's answer may differ, and the errors of the index.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daemon.endpoint.answers.arguments import Arguments
from daemon.endpoint.answers.filter_certainty import (
    WILDCARDS,
    TypedColumns,
    find_doubt,
    has_default_text,
    has_padded_text,
)
from daemon.endpoint.answers.server_rules import ServerRules
from daemon.endpoint.answers.table_access import NotAnswered, Reason, TableView
from state.partitions.filters.dialect import HIVE_4, Dialect
from state.partitions.filters.hive_expressions import translate
from state.partitions.index.lookups import NamedRows, Selection


_STRUCTS: Final = re.compile(r"\bstruct\b", re.IGNORECASE)
_REGEX: Final = re.compile(r"[^\w=:/ -]", re.ASCII)
_HIGH: Final = re.compile(rb"[\xee\xef]")
_BEYOND: Final = re.compile(rb"[\xf0-\xf4]")
"""The first bytes of characters from U+E000 on, and of those beyond U+FFFF."""


@dataclass(frozen=True, slots=True)
class CheckedSelection:
    """The partitions of a call. Reading them raises NotAnswered if a metastore may find other partitions, or
    return them in another order.
    """

    selection: Selection | NamedRows
    typed: TypedColumns | None = None
    """Columns whose values need the only form that a metastore finds."""

    def names(self) -> list[bytes]:
        """Return the names, in order."""
        names = self.selection.names()
        self._check(names)
        return names

    def payloads(self) -> list[bytes]:
        """Return the payloads, in the order of names."""
        pairs = self.selection.payloads()
        self._check([name for name, _ in pairs])
        return [payload for _, payload in pairs]

    def _check(self, names: Sequence[bytes]) -> None:
        if self.typed is not None and not self.typed.are_canonical(names):
            raise NotAnswered(Reason.NOT_CERTAIN)
        joined = b"".join(names)
        if joined.isascii():
            return
        # The order depends on the metastore's database: Derby compares UTF-16 units. With a limit, names that
        # the answer does not include may come first there.
        is_cut = isinstance(self.selection, Selection) and self.selection.limit >= 0
        differs = [one.search(joined) is not None for one in (_HIGH, _BEYOND)]
        if any(differs) if is_cut else all(differs):
            raise NotAnswered(Reason.NOT_CERTAIN)


# ARG001: the same for all lookups
def find_all(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:  # noqa: ARG001
    """Find all partitions."""
    return CheckedSelection(view.snapshot.lookups(view.name).by_filter("", arguments.limit))


def find_by_filter(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    """Find the partitions that a filter selects."""
    assert rules.dialect is not None
    text = arguments.filter or ""
    if _STRUCTS.search(text):
        raise NotAnswered(Reason.NOT_CERTAIN)  # Hive 4 reads lists of exactly two structs
    selection = view.snapshot.lookups(view.name, rules.dialect).by_filter(text, arguments.limit)
    return _require_certain(selection, rules.dialect)


def find_by_expr(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    """Find the partitions that Hive's expression selects."""
    lookups = view.snapshot.lookups(view.name)
    default = lookups.schema.default_partition
    if arguments.default_partition not in {None, default}:
        raise NotAnswered(Reason.ARGUMENTS)
    if arguments.limit >= 0:
        # Hive 4 ignores the limit if it evaluates the expression on each name.
        raise NotAnswered(Reason.NOT_CERTAIN)
    if arguments.tree is None or not rules.is_hive_4:
        raise NotAnswered(Reason.EXPRESSION)
    translation = translate(arguments.tree, default)
    if translation.filter is None or not translation.is_exact:
        raise NotAnswered(Reason.EXPRESSION)
    selection = lookups.by_tree(translation.filter)
    prepared = selection.prepared
    if prepared.tree is not None and has_default_text(selection.index, prepared.table, prepared.tree):
        raise NotAnswered(Reason.NOT_CERTAIN)
    return _require_certain(selection, HIVE_4)


def _require_certain(selection: Selection, dialect: Dialect) -> CheckedSelection:
    """Return the partitions of a filter; raise NotAnswered if metastores may differ in the answer."""
    index, table, tree = selection.index, selection.prepared.table, selection.prepared.tree
    typed = TypedColumns.of(table, tree)
    if find_doubt(tree, table.key_schema, dialect) or typed.has_invalid(index):
        raise NotAnswered(Reason.NOT_CERTAIN)
    if has_padded_text(index, table, tree):
        raise NotAnswered(Reason.NOT_CERTAIN)
    return CheckedSelection(selection, typed)


def find_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    """Find the partitions of a partial specification: one value for each column, "" for any."""
    if arguments.limit >= 0 and not rules.is_hive_4:
        raise NotAnswered(Reason.NOT_CERTAIN)  # of some, in the order in which its database returns them
    default = view.snapshot.lookups(view.name).schema.default_partition
    if any(value != default and WILDCARDS.search(value) for value in arguments.values or ()):
        raise NotAnswered(Reason.NOT_CERTAIN)  # a metastore finds similar values, too
    return _find_specified(view, arguments, rules)


def find_names_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    """Find the names of a partial specification, which Hive 4 compares exactly."""
    if arguments.limit >= 0:
        # Hive takes the names in the order in which its database returns them.
        raise NotAnswered(Reason.NOT_CERTAIN)
    return _find_specified(view, arguments, rules)


def _find_specified(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    values, lookups = arguments.values or [], view.snapshot.lookups(view.name)
    if len(values) != len(lookups.schema.columns):
        raise NotAnswered(Reason.ARGUMENTS)  # the last value of a short one is a prefix
    if not rules.is_hive_4 and any(_REGEX.search(value) for value in values):
        raise NotAnswered(Reason.NOT_CERTAIN)  # read as a regular expression
    return CheckedSelection(lookups.by_values(values, arguments.limit))


def find_ps_or_all(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:
    """Find the partitions of a partial specification; without a specification, find all."""
    find = find_all if arguments.values is None else find_ps
    return find(view, arguments, rules)


# ARG001: the same for all lookups
def find_by_names(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:  # noqa: ARG001
    """Find partitions by their names. The result omits unknown names, and has a repeated name once."""
    return CheckedSelection(view.snapshot.lookups(view.name).by_names(arguments.names or ()))


# ARG001: the same for all lookups
def find_by_name(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:  # noqa: ARG001
    """Find the partition with this name."""
    return CheckedSelection(view.snapshot.lookups(view.name).by_names([arguments.name or ""]))


# ARG001: the same for all lookups
def find_by_values(view: TableView, arguments: Arguments, rules: ServerRules) -> CheckedSelection:  # noqa: ARG001
    """Find the partition with these values."""
    values, lookups = arguments.values or (), view.snapshot.lookups(view.name)
    if len(values) != len(lookups.schema.columns):
        raise NotAnswered(Reason.REFUSED)
    return CheckedSelection(lookups.by_key(values))
