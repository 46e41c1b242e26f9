"""Input and output of mining: query texts, rules, and the keys that the texts request from raw tables.

A raw table is a table with a column that holds whole JSON events. Mining concerns only such columns; a call
on another table's column requests nothing. If a call may concern a raw column but its value cannot be traced,
the call counts as unresolved with its reason, and gives no key, because a wrong key would become a column.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Final

from annotated_types import Interval

from state.columns.paths import KeyPath
from state.errors import ConfigError


CATALOGS: Final = ("hive", "spark_catalog")
"""Catalogs in which engines usually see a raw table."""


class Form(StrEnum):
    """The kind of a text."""

    SQL = "sql"
    """A statement or script of Hive, Spark or Databricks, or program code with statements in its strings."""
    TRINO = "trino"
    PYTHON = "python"
    """A Python program."""
    PLAN = "plan"
    """A physical plan as Spark prints it."""


class Parser(StrEnum):
    """The parser that has read a text."""

    NONE = "none"
    """No parser: the text does not name the JSON of a raw table."""
    HIVE = "hive"
    DATABRICKS = "databricks"
    TRINO = "trino"
    PYTHON = "python"
    """Python's own parser, for the calls in a program and the queries in its strings."""
    SCANNER = "scanner"
    PLAN = "plan"


class Unresolved(StrEnum):
    """The reason why a use of a raw column gave no key."""

    EXPRESSION = "expression"
    """The document is computed: ``regexp_replace(json, …)``, or an element of an exploded array."""
    PATH = "path-not-literal"
    """The path is computed or bound: ``concat('$.', x)``, ``?``."""
    VARIABLE = "variable"
    """The path holds a variable that was not substituted: ``$.${hiveconf:key}``."""
    BAD_PATH = "bad-path"
    """The path cannot be read."""
    WHOLE = "whole-document"
    """The raw column is used as a whole, or by a function that mining does not know:
    ``regexp_extract(json, …)``."""
    VIEW = "view"
    """The column belongs to a view configured as a view over a raw table."""
    AMBIGUOUS = "ambiguous"
    """The name can refer to several columns."""
    UNKNOWN = "unknown-column"
    """No parser accepts the text, and the scanner cannot determine the table of the column."""
    SIZE = "too-large"
    """The text or its nesting exceeds the limits."""


class Style(StrEnum):
    """The way in which a function's arguments name keys."""

    DOTTED = "dotted"
    """``'a.b'``"""
    JSON_PATH = "jsonpath"
    """``'$.a.b'``"""
    MEMBER = "member"
    """``'a'``: one member of the top level, dots included, as ``json_tuple`` takes it."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """One query from a source."""

    text: str
    user: str
    """Empty if the source does not provide it."""
    at_s: int
    """When it ran, in seconds since 1970."""
    source: str
    """The source's name in the key log."""
    origin: str = ""
    """The source's own name for it (a job, a file, a record), for messages."""
    form: Form = Form.SQL
    database: str | None = None
    """The current database, for names without one; None if the source does not provide it."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table that holds JSON events."""

    name: str
    """``db.table``"""
    json_column: str
    catalogs: frozenset[str] = frozenset(CATALOGS)
    """Catalogs through which engines access this table. A table of this name in another catalog is a
    different table."""
    location: str | None = None
    """Its directory, which identifies it in plans that read files instead of the table."""
    views: frozenset[str] = frozenset()
    """``db.view`` of views over it. Their uses are counted, which shows whether they matter."""

    def __post_init__(self) -> None:
        for name in (self.name, *self.views):
            if name.count(".") != 1 or name != name.lower() or not all(name.split(".")):
                raise ConfigError(
                    "the name of a raw table or view must have the form db.name, in lower case", name=name
                )
        if not self.json_column or self.json_column != self.json_column.lower():
            raise ConfigError(
                "the name of the JSON column of a raw table must be in lower case", column=self.json_column
            )


@dataclass(frozen=True, slots=True)
class CustomFunction:
    """A user-defined function that extracts keys from JSON: ``event_parser(json, 'a.b', …)``."""

    name: str
    style: Style = Style.DOTTED
    """How its arguments name keys: 'dotted' (a.b), 'jsonpath' ($.a.b) or 'member' (one top-level name)."""
    document_argument: Annotated[int, Interval(ge=0, le=64)] = 0
    """Position of the JSON argument, counted from 0; all literals after it are keys."""


@dataclass(frozen=True, slots=True)
class MiningRules:
    """The raw tables and functions to look for, and the limits."""

    raw_tables: tuple[RawTable, ...]
    functions: tuple[CustomFunction, ...] = ()
    default_database: str = "default"
    """Database of unqualified table names, if the source does not name one."""
    text_chars: int = 1_048_576
    """Longer texts are not read."""
    parsed_chars: int = 262_144
    """Longer texts are scanned without parsing."""
    nesting: int = 100
    """Texts with deeper nesting are scanned without parsing, because a parser recurses."""
    remembered: int = 20_000
    """Number of fingerprints whose keys are remembered."""

    def __post_init__(self) -> None:
        if not self.raw_tables:
            raise ConfigError("mining requires at least one raw table")
        names = [table.name for table in self.raw_tables]
        if len(set(names)) != len(names):
            raise ConfigError("a raw table is listed twice", names=sorted(names))


@dataclass(frozen=True, slots=True)
class MinedKeys:
    """The distinct keys that a text requests, sorted, and the number of unresolved uses by reason."""

    keys: tuple[tuple[RawTable, KeyPath], ...] = ()
    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    parser: Parser = Parser.NONE


NOTHING: Final = MinedKeys()
TOO_LARGE: Final = MinedKeys(unresolved=Counter({Unresolved.SIZE: 1}))
