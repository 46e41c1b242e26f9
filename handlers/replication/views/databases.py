"""The query of a view with the databases of the target instead of those of the source.

A table, function or column gets the target's name of its database. If that name is uncertain, or the target
has no such table, the view is left out with the problem: it would read another database of that name, or
fail.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from handlers.replication.views.names import Dialect, Name, Token, find_names, find_problem, read_tokens


FindTarget = Callable[[str, str | None], str | None]
"""Returns the target's name of a database, given a table that it must have there, or None for its
functions."""


@dataclass(frozen=True, slots=True)
class Query:
    """The query of a view, and how its names are completed."""

    text: str
    dialect: Dialect
    namespace: str | None
    """The database of tables without one; None if the query does not say."""
    catalog: str | None = None
    """The metastore's catalog, as a prefix of the database."""


@dataclass(frozen=True, slots=True)
class RenamedQuery:
    """A query in its form on the target."""

    text: str
    tables: frozenset[tuple[str, str]] = frozenset()
    """The tables that it reads, by the names at the source."""
    functions: frozenset[tuple[str, str]] = frozenset()
    """The functions that it calls, likewise; if the call names no database, it may be a function of the
    engine."""
    namespaces: frozenset[str] = frozenset()
    """The target's name of the database of tables without one; empty if there are no such tables."""
    problem: str | None = None


def rename_databases(query: Query, find_target: FindTarget) -> RenamedQuery:
    """Return the query with the names that the target has."""
    return _Renaming(query, find_target).run()


class _Renaming:
    """The work of one call of ``rename_databases``."""

    def __init__(self, query: Query, find_target: FindTarget) -> None:
        self._query = query
        self._find_target = find_target
        self._problem = find_problem(query.text, query.dialect)
        self._tables: set[tuple[str, str]] = set()
        self._functions: set[tuple[str, str]] = set()
        self._namespaces: set[str] = set()
        self._renamed: dict[Token, str] = {}
        """The new text of tokens."""

    def run(self) -> RenamedQuery:
        names = find_names(self._query.text, self._query.dialect)
        for name in names:
            if name.kind != "column":
                self._rename_object(name)
        for name in names:
            if name.kind == "column":
                self._rename_column(name)
        text = self._query.text
        for token in sorted(self._renamed, key=lambda token: -token.start):
            text = text[: token.start] + self._renamed[token] + text[token.start + len(token.text) :]
        return RenamedQuery(
            text,
            frozenset(self._tables),
            frozenset(self._functions),
            frozenset(self._namespaces),
            self._problem,
        )

    def _rename_object(self, name: Name) -> None:
        """Rename a table or function."""
        first, dialect = name.tokens[0], self._query.dialect
        if len(name.tokens) == 1 and dialect.engine == "hive" and "." in first.name:
            db, _, rest = first.name.partition(".")  # as one quoted name
            target = self._locate(db, rest, name)
            if target is not None and target != db:
                self._renamed[first] = first.rename(f"{target}.{first.text[1:-1].partition('.')[2]}", dialect)
        elif len(name.tokens) == 1:
            self._note_unqualified(name)
        else:
            self._rename_qualified(name)

    def _rename_qualified(self, name: Name) -> None:
        tokens = name.tokens
        if len(tokens) > 2 and self._query.dialect.engine != "hive":  # noqa: PLR2004 - catalog.db.table
            if tokens[0].name != self._query.catalog:
                self._report(f"it names the catalog {tokens[0].name}, which may be another metastore")
                return
            tokens = tokens[1:]
        target = self._locate(tokens[0].name, tokens[1].name, name)
        if target is not None and target != tokens[0].name:
            self._renamed[tokens[0]] = tokens[0].rename(target, self._query.dialect)

    def _locate(self, db: str, item: str, name: Name) -> str | None:
        """Return the target's name of the database of a table or function."""
        target = self._find_target(db, item if name.kind == "table" else None)
        (self._tables if name.kind == "table" else self._functions).add((db, item))
        if target is None:
            verb = "reads" if name.kind == "table" else "calls"
            self._report(f"it {verb} {db}.{item}, which is not replicated to this target")
        return target

    def _note_unqualified(self, name: Name) -> None:
        """Note a table or function whose database is that of the session that created the view."""
        if name.kind == "function":
            if self._query.dialect.engine == "spark" and self._query.namespace is not None:
                self._functions.add((self._query.namespace, name.parts[0]))
            return
        if self._query.dialect.engine == "hive":
            self._tables.add((self._query.namespace or "", name.parts[0]))
            return  # Hive expands them; they remain in the text that nothing reads
        if self._query.namespace is None:
            self._report(f"it reads {name.parts[0]} without a database name")
            return
        target = self._locate(self._query.namespace, name.parts[0], name)
        if target is not None:
            self._namespaces.add(target)
        if len(self._namespaces) > 1:
            self._report("its tables without a database name are in several databases on this target")

    def _rename_column(self, name: Name) -> None:
        """Rename the database of ``db.table.column``;
        the same text may be a field of a column ``table`` of an alias ``db``.
        """
        has_catalog = name.parts[0] == self._query.catalog
        tokens = name.tokens[1:] if has_catalog else name.tokens
        # db.table
        if len(tokens) < 2 or (tokens[0].name, tokens[1].name) not in self._tables:  # noqa: PLR2004
            return
        db = tokens[0].name
        target = self._find_target(db, tokens[1].name)
        if target is None or target == db:
            return
        if not has_catalog and self._is_other(db):
            if self._query.dialect.engine != "hive":
                self._report(f"{'.'.join(name.parts)} may name a column by database or a field of {db}")
            return
        self._renamed[tokens[0]] = tokens[0].rename(target, self._query.dialect)

    def _is_other(self, name: str) -> bool:
        """Whether a table, an alias or a column has the name of the database as well."""
        tokens = read_tokens(self._query.text, self._query.dialect)
        texts = ["", "", *(token.text for token in tokens), ""]
        for index, token in enumerate(tokens):
            earlier, before, after = texts[index], texts[index + 1], texts[index + 3]
            is_database = after == "." and (before != "." or earlier.lower() == self._query.catalog)
            if token.name == name and not is_database:
                return True
        return False

    def _report(self, problem: str) -> None:
        if self._problem is None:
            self._problem = problem
