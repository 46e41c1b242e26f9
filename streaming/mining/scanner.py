"""Keys out of text that no parser takes: truncated queries, TRANSFORM of old, SQL in the strings of a program.

It knows words, strings, comments and balanced parentheses, and nothing of scopes. So it follows a call only where there is one
answer: the document is the JSON column of the only raw table in the text (or is named by that table's alias), or a name that the text
gives to one extraction only. Everything else is counted. What it finds, a parser would have found too; tests compare the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streaming.mining.json_functions import Path, parse_path, parse_schema
from streaming.mining.lineage import Lineage
from streaming.mining.model import Unresolved
from streaming.mining.tokens import NAME_KINDS, TokenKind, TokenList, name_value, string_value


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streaming.mining.aliases import Aliases, NamedValue
    from streaming.mining.json_functions import JsonFunction
    from streaming.mining.lineage import Value
    from streaming.mining.model import MinedKeys, Parser


_CHAIN_MAX: Final = 32
"""How far names are followed through names, and calls through calls."""


@dataclass(slots=True)
class Scanner:
    """One text's scan; ``run`` once."""

    tokens: TokenList
    naming: Aliases
    functions: Mapping[str, JsonFunction]
    lineage: Lineage = field(default_factory=Lineage)
    _taken: dict[int, list[Value]] = field(default_factory=dict)
    """What the call at a place takes out."""
    _as_base: Counter[str] = field(default_factory=Counter)
    _depth: int = 0

    def run(self, parser: Parser) -> MinedKeys:
        """Return the keys of the text itself, without those of code in its strings."""
        places = [at for at in range(len(self.tokens)) if self.tokens.is_call(at)]
        self.naming.find(places)
        for at in places:
            self._at_call(at)
        for at in range(len(self.tokens)):
            self._at_colon(at)
        self._use_names()
        return self.lineage.result(parser)

    def strings(self) -> Iterator[str]:
        """Yield the text of every string."""
        for token in self.tokens:
            if token.kind in {TokenKind.STRING, TokenKind.OPEN}:
                yield string_value(token)

    # -- what is taken out

    def _at_call(self, at: int) -> list[Value]:
        """Return what the call at ``at`` takes out, a value for each key."""
        if at in self._taken:
            return self._taken[at]
        self._taken[at] = [None]  # a name that means itself
        call = self.functions[self.tokens.lower_name(at)]
        arguments = self.tokens.arguments(at + 1)
        if len(arguments) <= call.document:
            self._taken[at] = [()]
            return self._taken[at]
        document = self._document(*arguments[call.document])
        rest = arguments[call.document + 1 :]
        if call.style is None:
            values = [self.lineage.parsed(document, self._schema(rest))]
        else:
            wanted = rest if call.takes_many else rest[:1]
            values = [self.lineage.below(document, self._path(call, *each)) for each in wanted]
        self._taken[at] = [self._fields(value, self.tokens.end_of_bracket(at + 1)) for value in values]
        return self._taken[at]

    def _document(self, start: int, end: int) -> Value:
        """Return what an argument is: a name, a call, either with fields behind it, in parentheses or a cast."""
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
            values = self._at_call(at)
            return values[0] if len(values) == 1 else None
        parts, end = self.tokens.read_dotted(at)
        if self.tokens.is_call(end + 1) and self.tokens.token(end).text == ".":
            return self._primary(end + 1)  # db.function(…)
        return self._fields(self._column(parts), end)

    def _column(self, parts: list[str]) -> Value:
        """Return what a column is; the names of sub-queries in front of it are not looked at."""
        lowered = [part.lower() for part in parts]
        raw = self._raw_column(lowered)
        if raw is not None:
            return raw
        for place in (0, 1):
            defined = self.naming.named.get(lowered[place], []) if place < len(lowered) else []
            if len(defined) == 1 and (len(parts) == 1 or place == 1 or lowered[0] not in self.naming.raw):
                self._as_base[lowered[place]] += 1
                values = self._defined(defined[0])
                return self.lineage.fields(values, parts[place + 1 :])
            if len(defined) > 1:
                self.lineage.unresolved[Unresolved.AMBIGUOUS] += 1
                return ()
        self.lineage.unresolved[Unresolved.UNKNOWN] += 1
        return ()

    def _raw_column(self, lowered: list[str]) -> Value:
        """Return the raw column, none of ours where it is another one's, None where it has to be looked up."""
        if len(lowered) > 1 and lowered[-2] in self.naming.raw:
            table, is_view = self.naming.raw[lowered[-2]]
            return (self.lineage.root(table, is_view=is_view),) if lowered[-1] == table.json_column else ()
        known = self.naming.raw_of(lowered[-1])
        if not known:
            return None
        if len(known) > 1:
            self.lineage.unresolved[Unresolved.AMBIGUOUS] += 1
            return ()
        table, is_view = known[0]
        return (self.lineage.root(table, is_view=is_view),)

    def _defined(self, named: NamedValue) -> Value:
        if not self.tokens.is_call(named.at):
            return self._column(self.tokens.read_dotted(named.at)[0])
        values = self._at_call(named.at)
        return values[named.which] if named.which < len(values) else ()

    def _fields(self, value: Value, at: int) -> Value:
        """Follow ``.a``, ``:a.b`` and ``['a']`` behind a value."""
        end = self.tokens.end_of_fields(at)
        while at < end:
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

    def _at_colon(self, at: int) -> None:
        """``json:a.b`` on its own; as an argument it has been read already."""
        if (
            self.tokens.token(at).text != ":"
            or self.tokens.token(at - 1).kind not in NAME_KINDS
            or self.tokens.token(at - 1).text == ":"
        ):
            return
        start = at - 1
        while self.tokens.token(start - 1).text == "." and self.tokens.token(start - 2).kind in NAME_KINDS:
            start -= 2
        if (
            self.tokens.token(start - 1).text in {":", "."}
            or self.tokens.token(at + 1).kind not in NAME_KINDS
        ):
            return
        known = {table.json_column for table, _ in self.naming.raw.values()} | set(self.naming.named)
        if self.tokens.lower_name(at - 1) in known:
            self._primary(start)

    # -- arguments

    def _path(self, call: JsonFunction, start: int, end: int) -> Path | Unresolved:
        token = self.tokens.token(start)
        # Behind the path there may be words (RETURNING INT), but no operator.
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
        """A named value is used for itself where its name stands more often than it is defined and taken apart."""
        seen = Counter(
            self.tokens.lower_name(at)
            for at in range(len(self.tokens))
            if self.tokens.token(at).kind in NAME_KINDS
        )
        for name, defined in self.naming.named.items():
            if (
                len(defined) == 1
                and seen[name] > 1 + self._as_base[name]
                and self.tokens.is_call(defined[0].at)
            ):
                self.lineage.use(self._defined(defined[0]))
