"""Finds keys in Spark's physical plans, which event logs contain for every query, SQL or DataFrame.

A plan has one advantage over a statement: attributes have an id (``json#7``) that is unique in the plan, so
no name needs to be resolved. It has one disadvantage: literals have lost their quotes
(``get_json_object(json#7, $.http.path)``). Only brackets and commas show the end of a key, so a literal with
a bracket may give a wrong key. Such an error affects only its line, because names and literals contain no
line breaks, and brackets are paired line by line. Functions that have no special form in a plan are
recognized by their names.

Reading a plan takes three steps:

1. The scans determine which attributes are raw JSON columns. A scan identifies a table by its name, or by its
   directory if the query reads files without a table. Two forms are supported: the formatted mode (the
   default of ``spark.sql.ui.explainMode``), in which each scan has its own section, and the simple mode, in
   which it is a line of the tree.
2. The calls that define attributes are recorded.
3. Values are traced through the calls: calls inside calls, and fields of either.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from streaming.mining.json_functions import JsonFunction, Schema, parse_path
from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import MinedKeys, Parser, RawTable, Unresolved
from streaming.mining.raw_tables import RawTables


_FIELD: Final = re.compile(r"\.(\w+)")
_BRACKET: Final = re.compile(r"\['[^'\n]*'\]|[()\[\]\n]")
ATTRIBUTE: Final = re.compile(r"([\w`]+)#(\d+)")
"""A column's name and its id, which is unique in the plan."""
_SCAN: Final = re.compile(
    r"^\(\d+\) (?:Batch)?Scan[ \w]*? (?P<table>[\w.`]*)(?: \(\d+\))? *\n(?P<section>(?:[^\n]+\n?)*)",
    re.MULTILINE,
)
_TREE_SCAN: Final = re.compile(
    r"(?:File|Batch)?Scan \w* ?(?P<table>[\w.`]*) ?\[(?P<output>[^\]\n]*)\](?P<section>[^\n]*)"
)
_OUTPUT: Final = re.compile(r"^Output \[\d+\]: \[(.*)\]$", re.MULTILINE)
_LOCATION: Final = re.compile(r"Location: \w+ ?(?:\(\d+ paths\))? ?\[([^\],\s]+)")
_ALIAS: Final = re.compile(r" AS [^\n]*?#(\d+)L?")
_AFTER_TUPLE: Final = re.compile(r", (?:true|false), \[([^\]\n]*)\]")
_PARSE_JSON: Final = re.compile(r"static_?invoke\(VariantExpressionEvalUtils\.parseJson\(", re.IGNORECASE)
_CAST: Final = re.compile(r"cast\(", re.IGNORECASE)
_TYPE: Final = re.compile(r"\b(?:StructField|StructType|ArrayType|MapType)\(|\w+Type\b")
_STRUCT_FIELD: Final = re.compile(r"StructField\(([^,()]+),")
_DEPTH_MAX: Final = 64


def read_plan_keys(text: str, tables: RawTables, functions: Mapping[str, JsonFunction]) -> MinedKeys:
    """Return the keys that a plan extracts from raw columns."""
    raw = find_raw_attributes(text, tables)
    return _Plan(text, raw, functions).run() if raw else MinedKeys(parser=Parser.PLAN)


def find_raw_attributes(text: str, tables: RawTables) -> dict[str, RawTable]:
    """Return the ids of the raw columns of a plan, with their tables."""
    return {
        number: table
        for name, output, section in _scans(text)
        if (table := _table(tables, name, section)) is not None
        for column, number in ATTRIBUTE.findall(output)
        if column.strip("`").lower() == table.json_column
    }


def _scans(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield the table, the columns and the description of each scan."""
    for match in _SCAN.finditer(text):
        output = _OUTPUT.search(match["section"])
        yield match["table"], output[1] if output else "", match["section"]
    for match in _TREE_SCAN.finditer(text):
        yield match["table"], match["output"], match["section"]


def _table(tables: RawTables, name: str, section: str) -> RawTable | None:
    parts = name.replace("`", "").lower().split(".")
    if len(parts) > 1:
        table = tables.find(parts)
        if table is not None:
            return table[0]
    location = _LOCATION.search(section)
    return tables.find_by_location(location[1]) if location else None


@dataclass(slots=True)
class _Plan:
    text: str
    raw: Mapping[str, RawTable]
    """Ids of raw columns."""
    functions: Mapping[str, JsonFunction]
    lineage: Lineage = field(default_factory=Lineage)
    _defined: dict[str, tuple[int, int]] = field(default_factory=dict)
    """For each id that a call defines: the position of the call, and the index among its keys."""
    _extracted: dict[int, tuple[list[Value], int]] = field(default_factory=dict)
    _brackets: _PlanText = field(init=False)
    _depth: int = 0

    def __post_init__(self) -> None:
        self._brackets = _PlanText(self.text)

    def run(self) -> MinedKeys:
        """Read the definitions (step 2), then the uses (step 3)."""
        names = sorted((*map(re.escape, self.functions), _PARSE_JSON.pattern), key=len, reverse=True)
        word = re.compile(rf"\b(?:{'|'.join(names)})(?:\(|(?<=\())", re.IGNORECASE)
        positions = [match.start() for match in word.finditer(self.text)]
        outermost = self._outermost(positions)
        for at in outermost:
            self._define(at)
        for at in outermost:
            self._read_call(at)
        for match in ATTRIBUTE.finditer(self.text):
            if match[2] in self._defined and self._brackets.fields(match.end())[0]:
                self._fields(self._attribute(match[2]), match.end())
        return self.lineage.result(Parser.PLAN)

    def _outermost(self, positions: list[int]) -> list[int]:
        """Drop calls inside other calls, and attributes named after a call."""
        outermost, reached = [], 0
        for at in positions:
            if at < reached:
                continue
            end = self._brackets.call_end(at)
            if self.text[end : end + 1] != "#":
                outermost.append(at)
                alias = _ALIAS.match(self.text, self._brackets.fields(end)[1])
                reached = alias.end() if alias else end
            else:
                reached = end
        return outermost

    def _define(self, at: int) -> None:
        end = self._brackets.call_end(at)
        many = _AFTER_TUPLE.match(self.text, end)
        if many is not None:
            for which, (_, number) in enumerate(ATTRIBUTE.findall(many[1])):
                self._defined.setdefault(number, (at, which))
            return
        alias = _ALIAS.match(self.text, self._brackets.fields(end)[1])
        if alias is not None:
            self._defined.setdefault(alias[1], (at, 0))

    def _read_call(self, at: int) -> tuple[list[Value], int]:
        """Return the values that the call at ``at`` extracts, and the position after it."""
        if at in self._extracted:
            return self._extracted[at]
        opening = self.text.index("(", at)
        end = self._brackets.end_of_bracket(opening)
        self._extracted[at] = ([()], end)
        if _PARSE_JSON.match(self.text, at):
            inner = self.text.index("parseJson(", at) + len("parseJson")
            document = self._argument(
                *self._brackets.arguments(inner, self._brackets.end_of_bracket(inner))[0]
            )
            values = [self.lineage.parse(document, None)]
        else:
            values = self._of_call(
                self.functions[self.text[at:opening].lower()], self._brackets.arguments(opening, end)
            )
        values = [self._fields(value, end)[0] for value in values]
        self._extracted[at] = (values, self._brackets.fields(end)[1])
        return self._extracted[at]

    def _of_call(self, call: JsonFunction, arguments: list[tuple[int, int]]) -> list[Value]:
        if call.style is None:
            types = [each for each in arguments if _TYPE.match(self.text, each[0])]
            rest = [each for each in arguments if each not in types]
            document = self._argument(*rest[0]) if rest else ()
            return [self.lineage.parse(document, self._schema(types))]
        if len(arguments) <= call.document + 1:
            return [()]
        document = self._argument(*arguments[call.document])
        rest = arguments[call.document + 1 :]
        style = call.style
        paths = [self.text[start:end] for start, end in (rest if call.takes_many else rest[:1])]
        return [
            self.lineage.below(
                document, Unresolved.PATH if ATTRIBUTE.search(path) else parse_path(path, style)
            )
            for path in paths
        ]

    def _argument(self, start: int, end: int) -> Value:
        """Return the value of a document: an attribute or a call, possibly with fields, or a cast of one."""
        if self._depth > _DEPTH_MAX:
            return None
        self._depth += 1
        try:
            return self._follow(start, end)
        finally:
            self._depth -= 1

    def _follow(self, start: int, end: int) -> Value:
        if _CAST.match(self.text, start):
            inside = self.text.rfind(" as ", start, end)
            return self._argument(start + len("cast("), inside) if inside > 0 else None
        attribute = ATTRIBUTE.match(self.text, start)
        if attribute is not None:
            value, reached = self._fields(self._attribute(attribute[2]), attribute.end())
            return value if reached == end else None
        name = self.text[start:end].partition("(")[0].lower()
        if name in self.functions or _PARSE_JSON.match(self.text, start):
            values, reached = self._read_call(start)
            return values[0] if reached == end and len(values) == 1 else None
        # Broadcasts and exchanges write input[0, …]; the plan has the same value a second time, with its
        # attribute.
        return () if self.text.startswith("input[", start) else self._opaque(start, end)

    def _opaque(self, start: int, end: int) -> Value:
        """Return None for an expression over a raw column, whose value cannot be traced, and () for any
        other.
        """
        numbers = {number for _, number in ATTRIBUTE.findall(self.text, start, end)}
        return None if numbers & (set(self.raw) | set(self._defined)) else ()

    def _attribute(self, number: str) -> Value:
        if number in self.raw:
            return (self.lineage.root(self.raw[number]),)
        if number not in self._defined:
            return ()
        at, which = self._defined[number]
        values = self._read_call(at)[0]
        return values[which] if which < len(values) else ()

    def _fields(self, value: Value, at: int) -> tuple[Value, int]:
        names, end = self._brackets.fields(at)
        return self.lineage.fields(value, names), end

    def _schema(self, types: list[tuple[int, int]]) -> Schema | None:
        names = [_STRUCT_FIELD.match(self.text, start) for start, _ in types]
        return {name[1]: None for name in names if name is not None} or None


@dataclass(slots=True)
class _PlanText:
    """The text of a plan with paired brackets, which finds ends of calls, arguments and fields. Positions are
    indexes of characters.
    """

    text: str
    _closings: dict[int, int] = field(default_factory=dict)

    def end_of_bracket(self, opening: int) -> int:
        """Return the position after the bracket that closes the one at ``opening``; the end of the text if
        none does.
        """
        if not self._closings:
            self._find_brackets()
        return self._closings.get(opening, len(self.text))

    def call_end(self, at: int) -> int:
        """Return the position after the call whose name begins at ``at``."""
        return self.end_of_bracket(self.text.index("(", at))

    def arguments(self, opening: int, end: int) -> list[tuple[int, int]]:
        """Return the begin and end of each argument; arguments are separated by ``", "``."""
        arguments, start, at, inner = [], opening + 1, opening + 1, end - 1
        while at < inner:
            if self.text[at] in "([":
                at = self.end_of_bracket(at)
            elif self.text.startswith(", ", at):
                arguments.append((start, at))
                start = at = at + 2
            else:
                at += 1
        return [*arguments, (start, inner)]

    def fields(self, at: int) -> tuple[list[str], int]:
        """Return the fields of ``.a.b`` at a position, possibly none, and the position after them."""
        names = []
        while (match := _FIELD.match(self.text, at)) is not None:
            names.append(match[1])
            at = match.end()
        return names, at

    def _find_brackets(self) -> None:
        opened: list[int] = []
        for match in _BRACKET.finditer(self.text):
            mark = match[0]
            if mark == "\n":
                for opening in opened:
                    self._closings[opening] = match.start()
                opened.clear()
            elif mark in "([":
                opened.append(match.start())
            elif mark in ")]" and opened:
                self._closings[opened.pop()] = match.end()
            elif len(mark) > 1:
                self._closings[match.start()] = match.end()
