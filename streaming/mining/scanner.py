"""Scanner: finds keys in texts that no parser accepts, such as truncated queries, old TRANSFORM syntax and
SQL in program strings.

It recognizes names, strings, comments and balanced parentheses, but no scopes. It therefore traces a call
only if its document is unambiguous: the JSON column of the only raw table in the text, a column named through
that table's alias, or a name that the text gives to a single extraction. Everything else counts as
unresolved. A parser would find all keys that the scanner finds; tests compare the two.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from streaming.mining.aliases import Aliases, NamedValue
from streaming.mining.json_functions import (
    JsonFunction,
    Path,
    join_paths,
    parse_operand,
    parse_path,
    parse_schema,
)
from streaming.mining.lineage import Lineage, Value
from streaming.mining.model import MinedKeys, Parser, Unresolved
from streaming.mining.templates import VARIABLE
from streaming.mining.tokens import NAME_KINDS, Token, TokenKind, TokenList, name_value, string_value


_CHAIN_MAX: Final = 32
"""The maximum length of a chain of names or nested calls."""


@dataclass(slots=True)
class Scanner:
    """Scans one text. Call ``run`` once."""

    tokens: TokenList
    aliases: Aliases
    functions: Mapping[str, JsonFunction]
    lineage: Lineage = field(default_factory=Lineage)
    _extracted: dict[int, list[Value]] = field(default_factory=dict)
    """The values that the call at a position extracts."""
    _as_base: Counter[str] = field(default_factory=Counter)
    """How often a name is the document of an extraction."""
    _depth: int = 0

    def run(self, parser: Parser) -> MinedKeys:
        """Return the keys of the text itself, without those in queries inside its strings."""
        positions = [at for at in range(len(self.tokens)) if self.tokens.is_call(at)]
        self.aliases.find(positions)
        for at in positions:
            self._read_call(at)
        for at in range(len(self.tokens)):
            self._read_colon(at)
        self._use_names()
        return self.lineage.result(parser)

    def strings(self) -> Iterator[str]:
        """Yield the content of every string."""
        for token in self.tokens:
            if token.kind in {TokenKind.STRING, TokenKind.OPEN}:
                yield string_value(token)

    def _read_call(self, at: int) -> list[Value]:
        """Return the values that the call at ``at`` extracts, one for each key."""
        if at in self._extracted:
            return self._extracted[at]
        self._extracted[at] = [None]  # ends the recursion of a name whose definition contains it
        call = self.functions[self.tokens.lower_name(at)]
        arguments = self.tokens.arguments(at + 1)
        if len(arguments) <= call.document:
            self._extracted[at] = [()]
            return self._extracted[at]
        document = self._document(*arguments[call.document])
        rest = arguments[call.document + 1 :]
        if call.style is None:
            values = [self.lineage.parse(document, self._schema(rest))]
        else:
            paths = [self._path(call, *each) for each in (rest if call.takes_many else rest[:1])]
            values = [
                self.lineage.below(document, path)
                for path in ([join_paths(paths)] if call.is_chain and paths else paths)
            ]
        self._extracted[at] = [self._fields(value, self.tokens.end_of_bracket(at + 1)) for value in values]
        return self._extracted[at]

    def _document(self, start: int, end: int) -> Value:
        """Return the value of an argument: a name or a call, possibly with fields, in parentheses or in a
        cast.
        """
        while self.tokens.token(start).text == "(" and self.tokens.end_of_bracket(start) == end:
            start, end = start + 1, end - 1
        if self.tokens.lower_name(start) in {"cast", "try_cast"} and self.tokens.token(start + 1).text == "(":
            inside = next((at for at in range(end - 1, start, -1) if self.tokens.lower_name(at) == "as"), end)
            return self._document(start + 2, inside)
        if self._depth > _CHAIN_MAX or self.tokens.end_of_value(start) != end:
            return None
        self._depth += 1
        try:
            return self._primary(start)
        finally:
            self._depth -= 1

    def _primary(self, at: int) -> Value:
        if self.tokens.is_call(at):
            values = self._read_call(at)
            return values[0] if len(values) == 1 else None
        parts, end = self.tokens.read_dotted(at)
        if self.tokens.is_call(end + 1) and self.tokens.token(end).text == ".":
            return self._primary(end + 1)  # db.function(…)
        return self._fields(self._column(parts), end)

    def _column(self, parts: list[str]) -> Value:
        """Return the value of a column, ignoring a sub-query's name before it."""
        lowered = [part.lower() for part in parts]
        raw = self._raw_column(lowered)
        if raw is not None:
            return raw
        for index in (0, 1):
            defined = self.aliases.named.get(lowered[index], []) if index < len(lowered) else []
            if len(defined) == 1 and (len(parts) == 1 or index == 1 or lowered[0] not in self.aliases.raw):
                self._as_base[lowered[index]] += 1
                values = self._resolve_defined(defined[0])
                return self.lineage.fields(values, parts[index + 1 :])
            if len(defined) > 1:
                self.lineage.unresolved[Unresolved.AMBIGUOUS] += 1
                return ()
        self.lineage.unresolved[Unresolved.UNKNOWN] += 1
        return ()

    def _raw_column(self, lowered: list[str]) -> Value:
        """Return the raw column of a name; () for a column of another table, None if the name may be an
        alias.
        """
        if len(lowered) > 1 and lowered[-2] in self.aliases.raw:
            table, is_view = self.aliases.raw[lowered[-2]]
            return (self.lineage.root(table, is_view=is_view),) if lowered[-1] == table.json_column else ()
        column = self.aliases.raw_of(lowered[-1])
        if not column:
            return None
        if len(column) > 1:
            self.lineage.unresolved[Unresolved.AMBIGUOUS] += 1
            return ()
        table, is_view = column[0]
        return (self.lineage.root(table, is_view=is_view),)

    def _resolve_defined(self, named: NamedValue) -> Value:
        if not self.tokens.is_call(named.at):
            return self._column(self.tokens.read_dotted(named.at)[0])
        values = self._read_call(named.at)
        return values[named.which] if named.which < len(values) else ()

    def _fields(self, value: Value, at: int) -> Value:
        """Read the fields of a value: ``.a``, ``:a.b``, ``['a']`` and ``->'a'``."""
        end = self.tokens.end_of_fields(at)
        while at < end:
            if operand := self.tokens.find_operand(at):
                value, at = self._operand(value, self.tokens.token(operand)), operand + 1
                continue
            mark, following = self.tokens.token(at).text, self.tokens.token(at + 1)
            if mark == "[" and following.kind is not TokenKind.STRING:
                value = value and tuple(self.lineage.element(each) for each in value)
                at = self.tokens.end_of_bracket(at)
                continue
            name = string_value(following) if mark == "[" else name_value(following)
            value = (
                self.lineage.below(value, Path((name,)))
                if mark == ":"
                else self.lineage.fields(value, [name])
            )
            at += 3 if mark == "[" else 2
        return value

    def _operand(self, value: Value, token: Token) -> Value:
        if token.kind is TokenKind.STRING:
            return self.lineage.below(value, parse_operand(string_value(token)))
        return value and tuple(self.lineage.element(each) for each in value)

    def _read_colon(self, at: int) -> None:
        """Read ``json:a.b`` and ``json->'a'`` outside of arguments; those in arguments are already read."""
        has_operand = self.tokens.find_operand(at) > 0
        if (
            not (has_operand or self.tokens.token(at).text == ":")
            or self.tokens.token(at - 1).kind not in NAME_KINDS
            or self.tokens.token(at - 1).text == ":"
        ):
            return
        start = at - 1
        while self.tokens.token(start - 1).text == "." and self.tokens.token(start - 2).kind in NAME_KINDS:
            start -= 2
        if self.tokens.token(start - 1).text in {":", "."} or not (
            has_operand or self.tokens.token(at + 1).kind in NAME_KINDS
        ):
            return
        columns = {table.json_column for table, _ in self.aliases.raw.values()} | set(self.aliases.named)
        if self.tokens.lower_name(at - 1) in columns:
            self._primary(start)

    def _path(self, call: JsonFunction, start: int, end: int) -> Path | Unresolved:
        if self.tokens.lower_name(start) == "r" and self.tokens.token(start + 1).kind is TokenKind.STRING:
            start += 1  # r'…'
        token = self.tokens.token(start)
        if token.text == VARIABLE:
            return Unresolved.VARIABLE
        # Keywords may follow the path (RETURNING INT), but no operator.
        if token.kind is TokenKind.STRING and (
            end == start + 1 or self.tokens.token(start + 1).kind is TokenKind.NAME
        ):
            assert call.style is not None
            return parse_path(string_value(token), call.style)
        return Unresolved.BAD_PATH if token.kind is TokenKind.OPEN else Unresolved.PATH

    def _schema(self, rest: list[tuple[int, int]]) -> dict[str, object] | None:
        if not rest or self.tokens.token(rest[0][0]).kind is not TokenKind.STRING:
            return None
        return parse_schema(string_value(self.tokens.token(rest[0][0])))

    def _use_names(self) -> None:
        """Mark a named value as used if its name also occurs other than as a definition or a document."""
        counts = Counter(
            self.tokens.lower_name(at)
            for at in range(len(self.tokens))
            if self.tokens.token(at).kind in NAME_KINDS
        )
        for name, defined in self.aliases.named.items():
            if (
                len(defined) == 1
                and counts[name] > 1 + self._as_base[name]
                and self.tokens.is_call(defined[0].at)
            ):
                self.lineage.use(self._resolve_defined(defined[0]))
