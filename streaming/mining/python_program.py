"""Reads one Python program: the queries in its strings, and the columns that PySpark's functions extract from
a raw column.

The reader does not trace DataFrames, because programs pass them through functions and loops. As in a text
that no parser accepts, a column named ``json`` belongs to the only raw table that the program reads; if the
program reads several raw tables with such a column, the use counts as ambiguous. The reader does trace names
that ``withColumn``, ``alias`` and assignments give to a value once.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from streaming.mining.json_functions import JsonFunction, Path, join_paths, parse_path
from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import MinedKeys, Parser, RawTable, Unresolved
from streaming.mining.python_syntax import SchemaReader, find_assigned, function_of, list_texts, text_of
from streaming.mining.raw_tables import RawTables
from streaming.mining.templates import VARIABLE, has_placeholder


_COLUMN_FUNCTIONS: Final = frozenset({"col", "column"})
_FRAGMENT_FUNCTIONS: Final = frozenset({"selectexpr", "expr", "filter", "where"})
_SAME_VALUE: Final = frozenset({"cast", "alias", "astype", "name", "try_cast", "otherwise"})
_FIELD_FUNCTIONS: Final = frozenset({"getfield", "getitem"})
_BY_NAME: Final = frozenset(
    {"select", "groupby", "orderby", "sort", "agg", "drop_duplicates", "dropduplicates"}
)
_CHAIN_MAX: Final = 32
_QUERY: Final = re.compile(r"\b(?:from|join|table|into)\s", re.IGNORECASE)
_TABLE: Final = re.compile(r"`?[\w]+`?(?:\.`?\w+`?){0,2}")


class ProgramReader:
    """Reads one program. Call ``run`` once. ``read_query`` reads a text as SQL. ``find_tables`` returns the
    raw tables that a text names.
    """

    def __init__(
        self,
        tables: RawTables,
        functions: Mapping[str, JsonFunction],
        database: str,
        read_query: Callable[[str], MinedKeys],
        find_tables: Callable[[str], Iterator[RawTable]],
    ) -> None:
        self._tables = tables
        self._functions = functions
        self._database = database
        self._read_query = read_query
        self._find_tables = find_tables
        self._lineage = Lineage()
        self._raw: dict[str, RawTable] = {}
        self._assigned: dict[str, ast.expr] = {}
        self._schemas = SchemaReader(self._assigned)
        self._named: dict[str, list[ast.expr]] = {}
        self._names: set[str] = set()
        """The names of columns to follow."""
        self._extracted: dict[int, list[Value]] = {}
        self._parts: set[int] = set()
        """Nodes read as a part of another one, and so are not used themselves."""
        self._resolving: list[str] = []

    def run(self, tree: ast.Module) -> list[MinedKeys]:
        """Return the keys of the program's own calls, and those of each query in its strings."""
        queries = list(self._read_texts(tree))
        self._assigned = find_assigned(tree)
        self._schemas = SchemaReader(self._assigned)
        nodes = list(ast.walk(tree))
        self._find_names(nodes)
        self._names = {*self._named, *(table.json_column for table in self._raw.values())}
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        self._parts.update(id(call.func) for call in calls)
        for name, values in self._named.items():
            for value in values:
                # A column replaced by a part of itself: withColumn("json", from_json("json", …)).
                self._resolve(name, value)
        for call in calls:
            self._extract(call)
        for call in calls:
            queries.extend(self._read_fragments(call))
        for node in nodes:
            self._use(node)
        return [self._lineage.result(Parser.PYTHON), *queries]

    def _read_texts(self, tree: ast.Module) -> Iterator[MinedKeys]:
        for text in list_texts(tree):
            if _TABLE.fullmatch(text):
                found = self._tables.find(text.replace("`", "").lower().split("."), self._database)
                if found is not None:
                    self._raw[found[0].name] = found[0]
            elif "/" in text and (table := self._tables.find_by_location(text.rstrip("/*"))) is not None:
                self._raw[table.name] = table
            elif _QUERY.search(text):
                self._raw.update((table.name, table) for table in self._find_tables(text))
                if self._tables.may_use(text):
                    yield self._read_query(text)

    def _read_fragments(self, call: ast.Call) -> Iterator[MinedKeys]:
        """Read the expressions of ``selectExpr("get_json_object(json, '$.a') AS a")`` as a query of the only
        raw table.
        """
        if function_of(call) not in _FRAGMENT_FUNCTIONS:
            return
        for node in call.args:
            text = text_of(node)
            if text is None or _QUERY.search(text) or not self._tables.may_extract(text):
                continue
            if len(self._raw) == 1:
                (table,) = self._raw.values()
                yield self._read_query(f"select {text} from {table.name}")  # noqa: S608 - read, never run
            elif any(name + "(" in text.lower() for name in self._functions):
                self._lineage.unresolved[Unresolved.AMBIGUOUS if self._raw else Unresolved.UNKNOWN] += 1

    def _find_names(self, nodes: Sequence[ast.AST]) -> None:
        for node in nodes:
            if not isinstance(node, ast.Call) or not node.args:
                continue
            name, function = text_of(node.args[0]), function_of(node)
            if name is None:
                continue
            if function == "withcolumn" and len(node.args) > 1:
                self._named.setdefault(name.lower(), []).append(node.args[1])
            elif function == "withcolumnrenamed" and len(node.args) > 1 and (new := text_of(node.args[1])):
                self._named.setdefault(new.lower(), []).append(node.args[0])
            elif function in {"alias", "name"} and isinstance(node.func, ast.Attribute):
                self._named.setdefault(name.lower(), []).append(node.func.value)

    def _extract(self, call: ast.Call) -> list[Value] | None:
        """Return a value for each key that a call extracts; None if it calls no JSON function on a column."""
        function = self._functions.get(function_of(call))
        if function is None or len(call.args) <= function.document:
            return None
        if id(call) in self._extracted:
            return self._extracted[id(call)]
        self._extracted[id(call)] = [None]  # ends the recursion if a definition contains its own name
        document = self._part(call.args[function.document])
        rest = call.args[function.document + 1 :]
        if function.style is None:
            values = [self._lineage.parse(document, self._schemas.read(rest[0] if rest else None))]
        else:
            paths = [self._path(each, function) for each in (rest if function.takes_many else rest[:1])]
            paths = [join_paths(paths)] if function.is_chain and paths else paths
            values = [self._lineage.below(document, path) for path in paths]
        self._extracted[id(call)] = values
        return values

    def _path(self, node: ast.expr, function: JsonFunction) -> Path | Unresolved:
        assert function.style is not None
        if isinstance(node, ast.Call) and function_of(node) == "lit" and node.args:
            node = node.args[0]
        if isinstance(node, ast.Name):
            node = self._assigned.get(node.id, node)
        text = text_of(node)
        if text is None:
            is_formatted = isinstance(node, ast.BinOp) or (
                isinstance(node, ast.Call) and function_of(node) == "format"
            )
            return Unresolved.VARIABLE if is_formatted else Unresolved.PATH
        return parse_path(text, function.style)

    def _part(self, node: ast.expr) -> Value:
        self._parts.add(id(node))
        return self._column(node)

    def _column(self, node: ast.expr) -> Value:
        """Return the value of a column, given by name or as an expression."""
        name = text_of(node)
        if name is not None:
            return self._name(name)
        match node:
            case ast.Name():
                value = self._assigned.get(node.id)
                return None if value is None or node.id in self._resolving else self._resolve(node.id, value)
            case ast.Call():
                return self._call(node)
            case ast.Attribute():
                return self._member(node.value, node.attr)
            case ast.Subscript():
                return self._member(node.value, text_of(node.slice))
        return None

    def _call(self, node: ast.Call) -> Value:
        values = self._extract(node)
        if values is not None:
            return values[0] if len(values) == 1 else None
        function = function_of(node)
        if function in _COLUMN_FUNCTIONS and node.args:
            return self._part(node.args[0])
        if isinstance(node.func, ast.Attribute) and function in _SAME_VALUE:
            return self._part(node.func.value)
        if isinstance(node.func, ast.Attribute) and function in _FIELD_FUNCTIONS and node.args:
            return self._member(node.func.value, text_of(node.args[0]))
        return None

    def _member(self, base: ast.expr, field: str | None) -> Value:
        """Read ``df.json``, ``df["json"]``, ``F.col("j").a`` and ``F.col("j")[0]``: a column, or a field or
        an element of one.
        """
        if not self._is_column(base):
            return None if field is None else self._name(field)
        value = self._part(base)
        if field is not None:
            return self._lineage.fields(value, [field])
        return value and tuple(self._lineage.element(each) for each in value)

    def _is_column(self, node: ast.expr) -> bool:
        """Whether an expression is a column and not a DataFrame."""
        match node:
            case ast.Call(func=ast.Attribute(value=base)) if (
                function_of(node) in _SAME_VALUE | _FIELD_FUNCTIONS
            ):
                return self._is_column(base)
            case ast.Call():
                return function_of(node) in self._functions or function_of(node) in _COLUMN_FUNCTIONS
            case ast.Attribute():
                return node.attr.lower() in self._names
            case ast.Subscript():
                return (text_of(node.slice) or "").lower() in self._names or self._is_column(node.value)
            case ast.Name():
                return (
                    node.id in self._assigned
                    and node.id not in self._resolving
                    and self._is_assigned_column(node.id)
                )
        return False

    def _is_assigned_column(self, name: str) -> bool:
        if len(self._resolving) > _CHAIN_MAX:
            return False
        self._resolving.append(name)
        try:
            return self._is_column(self._assigned[name])
        finally:
            self._resolving.pop()

    def _resolve(self, name: str, value: ast.expr) -> Value:
        if len(self._resolving) > _CHAIN_MAX:
            return None
        self._resolving.append(name)
        try:
            return self._part(value)
        finally:
            self._resolving.pop()

    def _name(self, text: str) -> Value:
        """Return the value of a column by name: ``json``, ``e.json``, ``j.a`` or ``j.*``."""
        if VARIABLE in text or has_placeholder(text):
            return None
        parts = [part.strip("`") for part in text.split(".") if part != "*"]
        for at, part in enumerate(parts[:2]):
            name = part.lower()
            defined = self._named.get(name, [])
            if len(defined) == 1 and name not in self._resolving:
                return self._lineage.fields(self._resolve(name, defined[0]), parts[at + 1 :])
            if len(defined) > 1 and not self._is_raw(name):
                self._lineage.unresolved[Unresolved.AMBIGUOUS] += 1
                return ()
            if self._is_raw(name):
                return self._lineage.fields(self._raw_column(name), parts[at + 1 :])
        return ()

    def _is_raw(self, name: str) -> bool:
        return name in self._tables.columns

    def _raw_column(self, name: str) -> Value:
        tables = [table for table in self._raw.values() if table.json_column == name]
        if len(tables) == 1:
            return (self._lineage.root(tables[0]),)
        self._lineage.unresolved[Unresolved.AMBIGUOUS if tables else Unresolved.UNKNOWN] += 1
        return ()

    def _use(self, node: ast.AST) -> None:
        """Mark a column that is not a part of another expression as used."""
        if isinstance(node, ast.Call) and function_of(node) in _BY_NAME:
            for name in filter(None, map(text_of, node.args)):
                if name.split(".", 1)[0].strip("`").lower() in self._names:
                    self._lineage.use(self._name(name))
        if id(node) not in self._parts and self._is_reference(node):
            assert isinstance(node, ast.expr)
            self._lineage.use(self._column(node))

    def _is_reference(self, node: ast.AST) -> bool:
        """Whether an expression refers to a column or to a field of one."""
        if isinstance(node, ast.Call):
            return function_of(node) in _COLUMN_FUNCTIONS | _FIELD_FUNCTIONS
        if isinstance(node, ast.Subscript):
            return text_of(node.slice) is not None
        return (
            isinstance(node, ast.Attribute)
            and isinstance(node.ctx, ast.Load)
            and (node.attr.lower() in self._names or self._is_column(node.value))
        )
