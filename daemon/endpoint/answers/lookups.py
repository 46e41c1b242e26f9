"""Finds the partitions of a call, as (name, row) in the order of names, in one view of a table.

Each function raises NotAnswered where the metastore's answer may differ, and the errors of the index.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from daemon.endpoint.answers.filter_certainty import WILDCARDS, TypedColumns, find_doubt
from daemon.endpoint.answers.table_access import NotAnswered, Reason
from state.partitions.filters.parser import parse_filter
from state.partitions.index.metastore_calls import PartitionCalls, matches


if TYPE_CHECKING:
    from collections.abc import Iterable

    from daemon.endpoint.answers.arguments import Arguments
    from daemon.endpoint.answers.server_rules import ServerRules
    from daemon.endpoint.answers.table_access import TableView

    Rows = list[tuple[bytes, bytes]]


_STRUCTS: Final = re.compile(r"\bstruct\b", re.IGNORECASE)
_REGEX: Final = re.compile(r"[^\w=:/ -]", re.ASCII)


def find_all(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:  # noqa: ARG001 - the same for all lookups
    """Find all partitions."""
    prepared = view.index.prepare(view.name, "")
    return view.index.find_rows(prepared, arguments.limit)


def find_by_filter(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:
    """Find the partitions that a filter selects."""
    assert rules.dialect is not None
    text = arguments.filter or ""
    if _STRUCTS.search(text):
        raise NotAnswered(Reason.NOT_CERTAIN)  # Hive 4 reads lists of exactly two structs
    prepared = view.index.prepare(view.name, text, rules.dialect)
    node = parse_filter(text, rules.dialect)
    typed = TypedColumns.of(prepared.table, node)
    if find_doubt(node, prepared.table.key_schema, rules.dialect) or typed.has_invalid(view.index):
        raise NotAnswered(Reason.NOT_CERTAIN)
    found = view.index.find_rows(prepared, arguments.limit)
    if not typed.are_canonical(name for name, _ in found):
        raise NotAnswered(Reason.NOT_CERTAIN)
    return found


def find_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:
    """Find the partitions of a partial specification: one value for each column, "" for any."""
    default = view.index.table(view.name).key_schema.default_partition
    if any(value != default and WILDCARDS.search(value) for value in arguments.values or ()):
        raise NotAnswered(Reason.NOT_CERTAIN)  # a metastore finds similar values, too
    return find_names_ps(view, arguments, rules)


def find_names_ps(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:
    """Find the names of a partial specification, which Hive 4 compares exactly."""
    values = arguments.values or []
    if len(values) != len(view.index.table(view.name).key_schema.columns):
        raise NotAnswered(Reason.ARGUMENTS)  # the last value of a short one is a prefix
    if not rules.is_hive_4 and any(_REGEX.search(value) for value in values):
        raise NotAnswered(Reason.NOT_CERTAIN)  # read as a regular expression
    prepared, expected = PartitionCalls(view.index).prepare_ps(view.name, values)
    rows = view.index.find_rows(prepared)
    if any(expected):
        rows = [row for row in rows if matches(row[0].decode(errors="surrogatepass"), expected)]
    return rows if arguments.limit < 0 else rows[: arguments.limit]


def find_ps_or_all(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:
    """Find the partitions of a partial specification; all of them without one."""
    find = find_all if arguments.values is None else find_ps
    return find(view, arguments, rules)


def find_by_names(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:  # noqa: ARG001 - the same for all lookups
    """Find partitions by their names; absent ones are left out, and repeated ones are found once."""
    return _named(view, arguments.names or ())


def find_by_name(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:  # noqa: ARG001 - the same for all lookups
    """Find the partition with this name."""
    found = _named(view, [arguments.name or ""])
    if not found:
        raise NotAnswered(Reason.REFUSED)
    return found


def find_by_values(view: TableView, arguments: Arguments, rules: ServerRules) -> Rows:  # noqa: ARG001 - the same for all lookups
    """Find the partition with these values."""
    values = arguments.values or ()
    schema = view.index.table(view.name).key_schema
    if len(values) != len(schema.columns):
        raise NotAnswered(Reason.REFUSED)
    return [(b"", schema.row(values))]


def _named(view: TableView, names: Iterable[str]) -> Rows:
    schema = view.index.table(view.name).key_schema
    rows = {}
    for name in names:
        values = [unquote(part.partition("=")[2], "latin-1") for part in name.split("/")]
        if len(values) == len(schema.columns) and schema.name(values) == name:
            rows[name.encode(errors="surrogatepass")] = schema.row(values)
    return sorted(rows.items())
