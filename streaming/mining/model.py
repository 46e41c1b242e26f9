"""What mining takes and gives: a query's text, and the keys that it asks of raw tables.

A raw table is one whose column holds whole JSON events. Everything mining says is about such columns: a call on another
table's column asks nothing of ours. Where a call may be about a raw column and cannot be followed, it is counted under its
reason and gives no key, because a wrong key would become a column.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from state.errors import ConfigError


if TYPE_CHECKING:
    from state.columns.paths import KeyPath


class Form(StrEnum):
    """What kind of text it is."""

    SQL = "sql"
    """A statement or script of Hive, Spark or Databricks, or a program's text with statements in its strings."""
    TRINO = "trino"
    PLAN = "plan"
    """A physical plan as Spark prints it."""


class Parser(StrEnum):
    """What has read a text."""

    NONE = "none"
    """Nobody had to: it does not name a raw table's JSON."""
    HIVE = "hive"
    DATABRICKS = "databricks"
    TRINO = "trino"
    SCANNER = "scanner"
    PLAN = "plan"


class Unresolved(StrEnum):
    """Why a use of a raw column gave no key."""

    EXPRESSION = "expression"
    """The document is computed (``regexp_replace(json, …)``, an element of an exploded array)."""
    PATH = "path-not-literal"
    """The path is computed or bound: ``concat('$.', x)``, ``?``."""
    VARIABLE = "variable"
    """The path holds a variable that was not substituted: ``$.${hiveconf:key}``."""
    BAD_PATH = "bad-path"
    """The path cannot be read."""
    WHOLE = "whole-document"
    """The raw column is taken as a whole, or by a function that mining does not know (``regexp_extract(json, …)``)."""
    VIEW = "view"
    """The column belongs to a view that the configuration calls a view over raw tables."""
    AMBIGUOUS = "ambiguous"
    """More than one column could be meant."""
    UNKNOWN = "unknown-column"
    """No parser takes the text, and the scanner cannot tell whose column it is."""
    SIZE = "too-large"
    """The text, or its nesting, is beyond the limits."""


class Style(StrEnum):
    """How a function's arguments name keys."""

    DOTTED = "dotted"
    """``'a.b'``"""
    JSON_PATH = "jsonpath"
    """``'$.a.b'``"""
    MEMBER = "member"
    """``'a'``, one member of the top level, dots and all, as ``json_tuple`` takes it."""


@dataclass(frozen=True, slots=True)
class QueryText:
    """One query as a source found it."""

    text: str
    user: str
    """Empty where the source does not tell."""
    at_s: int
    """When it ran, in seconds since 1970."""
    source: str
    """The source's name in the key log."""
    origin: str = ""
    """What the source calls it: a job, a file, a record. For people."""
    form: Form = Form.SQL
    database: str | None = None
    """The current database, for names without one; None where the source does not tell."""


@dataclass(frozen=True, slots=True)
class RawTable:
    """A table that holds JSON events."""

    name: str
    """``db.table``"""
    json_column: str
    catalogs: frozenset[str] = frozenset({"hive", "spark_catalog"})
    """Catalogs through which engines see this table; other catalogs' tables of the name are other tables."""
    location: str | None = None
    """Its directory, by which a plan over files rather than over the table is recognised."""
    views: frozenset[str] = frozenset()
    """``db.view`` of views over it: uses are counted, so that it shows when they matter."""

    def __post_init__(self) -> None:
        for name in (self.name, *self.views):
            if name.count(".") != 1 or name != name.lower() or not all(name.split(".")):
                raise ConfigError("a raw table or view is named db.name, in lower case", name=name)
        if not self.json_column or self.json_column != self.json_column.lower():
            raise ConfigError("a raw table's JSON column is named in lower case", column=self.json_column)


@dataclass(frozen=True, slots=True)
class CustomFunction:
    """A function of the user's own that takes keys out of JSON: ``event_parser(json, 'a.b', …)``."""

    name: str
    style: Style = Style.DOTTED
    document_argument: int = 0
    """Which argument, counted from 0, is the JSON text; all literals after it are keys."""


@dataclass(frozen=True, slots=True)
class MiningRules:
    """What is mined, and within which limits."""

    raw_tables: tuple[RawTable, ...]
    functions: tuple[CustomFunction, ...] = ()
    default_database: str = "default"
    text_chars: int = 1_048_576
    """A longer text is not read at all."""
    parsed_chars: int = 262_144
    """A longer text goes straight to the scanner."""
    nesting: int = 100
    """Deeper nested texts go to the scanner: a parser recurses."""
    remembered: int = 20_000
    """Fingerprints whose keys are remembered."""

    def __post_init__(self) -> None:
        if not self.raw_tables:
            raise ConfigError("mining needs at least one raw table")
        names = [table.name for table in self.raw_tables]
        if len(set(names)) != len(names):
            raise ConfigError("a raw table is named twice", names=sorted(names))


@dataclass(frozen=True, slots=True)
class MinedKeys:
    """The keys one text asks for, each once, sorted; and what could not be followed, by reason."""

    keys: tuple[tuple[RawTable, KeyPath], ...] = ()
    unresolved: Counter[Unresolved] = field(default_factory=Counter)
    parser: Parser = Parser.NONE


NOTHING: Final = MinedKeys()
