"""Reads Python programs as syntax trees: literal texts, names of called functions, and schemas.

It parses a program and never runs it. Only the literal parts of a text are known; every other part is
``VARIABLE``.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Final

from streaming.mining.json_functions import Schema, parse_schema
from streaming.mining.templates import VARIABLE


_JOINED_MAX: Final = 1_000
"""Strings joined by ``+`` in one expression."""
_CALLS: Final = (
    ".sql(",
    ".table(",
    ".read.",
    ".select(",
    ".selectExpr(",
    ".withColumn(",
    ".filter(",
    ".where(",
)
_IMPORT: Final = re.compile(r"^[ \t]*(?:import[ \t]+\w|from[ \t]+[\w.]+[ \t]+import[ \t])", re.MULTILINE)
_MAGIC: Final = re.compile(r"^# MAGIC ?(.*)$", re.MULTILINE)


def is_program(text: str) -> bool:
    """Whether a text looks like a program and not like an SQL statement."""
    return any(call in text for call in _CALLS) or ("import " in text and _IMPORT.search(text) is not None)


def parse_program(text: str) -> ast.Module | None:
    """Return the syntax tree of a program; None for any other text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # "\d" in a string is valid
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def read_magic(text: str) -> str:
    """Return the SQL in the cells of a Databricks notebook, which are comments: ``# MAGIC %sql``."""
    lines = [match[1] for match in _MAGIC.finditer(text)]
    return "\n".join(";" if line.startswith("%") else line for line in lines)


def list_texts(tree: ast.Module) -> Iterator[str]:
    """Yield every text of a program once, without docstrings."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        text = text_of(node)
        if text is not None:
            yield text
            continue
        todo.extend(
            child
            for child in ast.iter_child_nodes(node)
            if not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant))
        )


def text_of(node: ast.AST) -> str | None:
    """Return the value of a string, an f-string or strings joined by ``+``; None for other expressions."""
    parts: list[str] = []
    todo = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, ast.Constant) and isinstance(part.value, str):
            parts.append(part.value)
        elif isinstance(part, ast.JoinedStr):
            parts.extend(text_of(each) or VARIABLE for each in part.values)
        elif isinstance(part, ast.BinOp) and isinstance(part.op, ast.Add) and len(todo) < _JOINED_MAX:
            todo += [part.right, part.left]
        elif isinstance(node, ast.BinOp) and parts:
            parts.append(VARIABLE)  # "select " + columns + " from t"
        else:
            return None
    return "".join(parts)


def function_of(call: ast.Call) -> str:
    """Return the name of a called function in lower case, without its module: the last part of
    ``F.get_json_object(…)``.
    """
    target = call.func
    name = (
        target.attr
        if isinstance(target, ast.Attribute)
        else target.id
        if isinstance(target, ast.Name)
        else ""
    )
    return name.lower()


def find_assigned(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the variables that the program assigns once, with their values."""
    assigned: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        targets = (
            node.targets
            if isinstance(node, ast.Assign)
            else [node.target]
            if isinstance(node, ast.AnnAssign)
            else []
        )
        for target in targets:
            if (
                isinstance(target, ast.Name)
                and isinstance(node, (ast.Assign, ast.AnnAssign))
                and node.value is not None
            ):
                assigned.setdefault(target.id, []).append(node.value)
    return {name: values[0] for name, values in assigned.items() if len(values) == 1}


class SchemaReader:
    """Reads the schemas of a program: a text in DDL form, ``StructType([StructField("a", …)])``, or
    ``StructType().add("a", …)``.

    It reads each expression once, because a schema may contain another one several times, and that one a
    third.
    """

    def __init__(self, assigned: Mapping[str, ast.expr]) -> None:
        self._assigned = assigned
        self._schemas: dict[int, Schema | None] = {}

    def read(self, node: ast.AST | None) -> Schema | None:
        """Return the fields of a schema; None if it is not literal, or not a struct."""
        if isinstance(node, ast.Name):
            node = self._assigned.get(node.id)
        if node is None:
            return None
        if id(node) not in self._schemas:
            self._schemas[id(node)] = None  # ends the recursion of a schema that contains itself
            text = text_of(node)
            self._schemas[id(node)] = self._read_struct(node) if text is None else parse_schema(text)
        return self._schemas[id(node)]

    def _read_struct(self, node: ast.AST) -> Schema | None:
        added: list[ast.Call] = []
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "add":
            added.append(node)
            node = node.func.value
        if isinstance(node, ast.Call) and function_of(node) == "structtype":
            listed = node.args[0] if node.args else None
            fields = listed.elts if isinstance(listed, (ast.List, ast.Tuple)) else []
            schema: Schema = {}
        elif added and (before := self.read(node)) is not None:
            fields, schema = [], dict(before)
        else:
            return None
        for field in [*fields, *reversed(added)]:
            name = text_of(field.args[0]) if isinstance(field, ast.Call) and field.args else None
            if name is not None and isinstance(field, ast.Call):
                type_ = field.args[1] if len(field.args) > 1 else None
                schema[name] = self.read(type_) if isinstance(type_, (ast.Call, ast.Name)) else None
        return schema
