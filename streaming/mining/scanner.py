"""Keys out of text that no parser takes: truncated queries, TRANSFORM of old, SQL in the strings of a program.

It knows words, strings, comments and balanced parentheses, and nothing of scopes. So it follows a call only where there is one
answer: the document is the JSON column of the only raw table in the text (or is named by that table's alias), or a name that the text
gives to one extraction only. Everything else is counted. What it finds, a parser would have found too; tests compare the two.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from streaming.mining.calls import Path, read_path
from streaming.mining.lineage import Lineage
from streaming.mining.schemas import schema_of
from streaming.mining.tokens import Kind, Token, name_value, string_value, tokens
from streaming.mining.values import Unresolved


if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from streaming.mining.calls import Call
    from streaming.mining.lineage import Value
    from streaming.mining.tables import Tables
    from streaming.mining.values import MinedKeys, Parser, RawTable


_BEFORE_TABLE: Final = frozenset({"from", "join", "table", "using", "update", ","})
_NO_ALIAS: Final = frozenset(
    {
        "and",
        "anti",
        "as",
        "asc",
        "between",
        "case",
        "cluster",
        "cross",
        "desc",
        "distribute",
        "else",
        "end",
        "except",
        "from",
        "full",
        "group",
        "having",
        "in",
        "inner",
        "insert",
        "intersect",
        "is",
        "join",
        "lateral",
        "left",
        "like",
        "limit",
        "map",
        "natural",
        "not",
        "nulls",
        "on",
        "or",
        "order",
        "outer",
        "over",
        "pivot",
        "qualify",
        "reduce",
        "right",
        "rlike",
        "select",
        "semi",
        "set",
        "sort",
        "tablesample",
        "then",
        "union",
        "unpivot",
        "using",
        "values",
        "when",
        "where",
        "window",
        "with",
    }
)
_NAMES: Final = frozenset({Kind.NAME, Kind.QUOTED})
_END: Final = Token(Kind.MARK, "")
_CHAIN_MAX: Final = 32
"""How far names are followed through names, and calls through calls."""


@dataclass(slots=True)
class _Named:
    """A name that the text gives to something: where that begins, and which of its keys it is."""

    at: int
    which: int = 0


@dataclass(slots=True)
class Scan:
    """One text's scan; ``run`` once."""

    tables: Tables
    calls: Mapping[str, Call]
    database: str
    words: list[Token]
    lineage: Lineage = field(default_factory=Lineage)
    _raw: dict[str, tuple[RawTable, bool]] = field(default_factory=dict)
    """Raw tables by every name that the text gives them."""
    _named: dict[str, list[_Named]] = field(default_factory=dict)
    _taken: dict[int, list[Value]] = field(default_factory=dict)
    """What the call at a place takes out."""
    _as_base: Counter[str] = field(default_factory=Counter)
    _closings: dict[int, int] = field(default_factory=dict)
    """For each opening bracket the place after the one that closes it."""
    _depth: int = 0

    @classmethod
    def of(
        cls, text: str, tables: Tables, calls: Mapping[str, Call], database: str, *, is_trino: bool
    ) -> Scan:
        """Prepare a scan; double quotes make names for Trino and strings for everybody else."""
        words = list(tokens(text))
        if is_trino:
            words = [
                Token(Kind.QUOTED, w.text) if w.kind is Kind.STRING and w.text[0] == '"' else w for w in words
            ]
        return cls(tables, calls, database, words)

    def run(self, parser: Parser) -> MinedKeys:
        """Return the keys of the text itself, without those of code in its strings."""
        self._find_brackets()
        self._find_tables()
        places = [at for at in range(len(self.words)) if self._is_call(at)]
        for at in places:
            self._find_names(at)
        for at in range(len(self.words)):
            self._find_renamed(at)
        for at in places:
            self._at_call(at)
        for at in range(len(self.words)):
            self._at_colon(at)
        self._use_names()
        return self.lineage.result(parser)

    def strings(self) -> Iterator[str]:
        """Yield the text of every string."""
        for word in self.words:
            if word.kind in {Kind.STRING, Kind.OPEN}:
                yield string_value(word)

    # -- what the text names

    def _word(self, at: int) -> Token:
        return self.words[at] if 0 <= at < len(self.words) else _END

    def _low(self, at: int) -> str:
        word = self._word(at)
        return name_value(word).lower() if word.kind in _NAMES else word.text

    def _is_call(self, at: int) -> bool:
        return (
            self._word(at).kind is Kind.NAME
            and self._word(at + 1).text == "("
            and self._low(at) in self.calls
        )

    def _find_brackets(self) -> None:
        opened: list[int] = []
        for at, word in enumerate(self.words):
            if word.kind is Kind.MARK and word.text in "([":
                opened.append(at)
            elif word.kind is Kind.MARK and word.text in ")]" and opened:
                self._closings[opened.pop()] = at + 1

    def _dotted(self, at: int) -> tuple[list[str], int]:
        """Read ``a.b.c`` and return its parts and the place after it."""
        parts = [name_value(self._word(at))]
        at += 1
        while self._word(at).text == "." and self._word(at + 1).kind in _NAMES and not self._is_call(at + 1):
            parts.append(name_value(self._word(at + 1)))
            at += 2
        return parts, at

    def _find_tables(self) -> None:
        for at in range(1, len(self.words)):
            if self._word(at).kind not in _NAMES or self._low(at - 1) not in _BEFORE_TABLE:
                continue
            parts, end = self._dotted(at)
            name = [part.lower() for part in parts[-3:]]
            found = self.tables.raw("".join(name[:-2]), (["", *name])[-2] or self.database, name[-1])
            if found is None:
                continue
            end += self._low(end) == "as"
            alias = self._low(end) if self._word(end).kind in _NAMES else ""
            for known in {name[-1], *({alias} - _NO_ALIAS - {""})}:
                self._raw[known] = found

    def _find_names(self, at: int) -> None:
        """Note the names given to what the call at ``at`` takes out: ``f(…) AS a``, ``f(…) a`` or ``VIEW f(…) t AS a, b``."""
        end = self._postfix(self._closing(at + 1))
        if self._low(at - 1) in {"view", "outer"}:
            end += self._word(end).kind in _NAMES and self._low(end) != "as"
            end += self._low(end) == "as"
            self._note_list(end, at)
            return
        has_as = self._low(end) == "as"
        end += has_as
        if has_as and self._word(end).text == "(":
            self._note_list(end + 1, at)
        elif self._word(end).kind in _NAMES and self._low(end) not in _NO_ALIAS:
            self._note(self._low(end), _Named(at))

    def _note_list(self, end: int, at: int) -> None:
        which = 0
        while self._word(end).kind in _NAMES and self._low(end) not in _NO_ALIAS:
            self._note(self._low(end), _Named(at, which))
            which += 1
            if self._word(end + 1).text != ",":
                break
            end += 2

    def _find_renamed(self, at: int) -> None:
        """Note ``json AS j``."""
        if self._low(at) == "as" and self._word(at + 1).kind in _NAMES and self._word(at - 1).kind in _NAMES:
            start = at - 1
            while self._word(start - 1).text == "." and self._word(start - 2).kind in _NAMES:
                start -= 2
            if any(self._low(at - 1) == table.json_column for table, _ in self._raw.values()):
                self._note(self._low(at + 1), _Named(start))

    def _note(self, name: str, named: _Named) -> None:
        self._named.setdefault(name, []).append(named)

    # -- what is taken out

    def _at_call(self, at: int) -> list[Value]:
        """Return what the call at ``at`` takes out, a value for each key."""
        if at in self._taken:
            return self._taken[at]
        self._taken[at] = [None]  # a name that means itself
        call = self.calls[self._low(at)]
        arguments = self._arguments(at + 1)
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
        self._taken[at] = [self._fields(value, self._closing(at + 1)) for value in values]
        return self._taken[at]

    def _document(self, start: int, end: int) -> Value:
        """Return what an argument is: a name, a call, either with fields behind it, in parentheses or a cast."""
        while self._word(start).text == "(" and self._closing(start) == end:
            start, end = start + 1, end - 1
        if self._low(start) in {"cast", "try_cast"} and self._word(start + 1).text == "(":
            inside = next((at for at in range(end - 1, start, -1) if self._low(at) == "as"), end)
            return self._document(start + 2, inside)
        if self._depth > _CHAIN_MAX or self._reach(start) != end:
            return None
        self._depth += 1
        try:
            return self._primary(start)
        finally:
            self._depth -= 1

    def _reach(self, at: int) -> int:
        """Return where the name or call at ``at`` ends, fields included."""
        if self._is_call(at):
            return self._postfix(self._closing(at + 1))
        if self._word(at).kind not in _NAMES:
            return at
        end = self._dotted(at)[1]
        return (
            self._reach(end + 1)
            if self._is_call(end + 1) and self._word(end).text == "."
            else self._postfix(end)
        )

    def _primary(self, at: int) -> Value:
        if self._is_call(at):
            values = self._at_call(at)
            return values[0] if len(values) == 1 else None
        parts, end = self._dotted(at)
        if self._is_call(end + 1) and self._word(end).text == ".":
            return self._primary(end + 1)  # db.function(…)
        return self._fields(self._column(parts), end)

    def _column(self, parts: list[str]) -> Value:
        """Return what a column is; the names of sub-queries in front of it are not looked at."""
        lowered = [part.lower() for part in parts]
        raw = self._raw_column(lowered)
        if raw is not None:
            return raw
        for place in (0, 1):
            defined = self._named.get(lowered[place], []) if place < len(lowered) else []
            if len(defined) == 1 and (len(parts) == 1 or place == 1 or lowered[0] not in self._raw):
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
        if len(lowered) > 1 and lowered[-2] in self._raw:
            table, is_view = self._raw[lowered[-2]]
            return (self.lineage.root(table, is_view=is_view),) if lowered[-1] == table.json_column else ()
        known = {
            table.name: (table, is_view)
            for table, is_view in self._raw.values()
            if table.json_column == lowered[-1]
        }
        if not known:
            return None
        if len(known) > 1:
            self.lineage.unresolved[Unresolved.AMBIGUOUS] += 1
            return ()
        table, is_view = next(iter(known.values()))
        return (self.lineage.root(table, is_view=is_view),)

    def _defined(self, named: _Named) -> Value:
        if not self._is_call(named.at):
            return self._column(self._dotted(named.at)[0])
        values = self._at_call(named.at)
        return values[named.which] if named.which < len(values) else ()

    def _fields(self, value: Value, at: int) -> Value:
        """Follow ``.a``, ``:a.b`` and ``['a']`` behind a value."""
        end = self._postfix(at)
        while at < end:
            mark, following = self._word(at).text, self._word(at + 1)
            if mark == "[" and following.kind is not Kind.STRING:
                value = value and tuple(self.lineage.element(each) for each in value)
                at = self._closing(at)
                continue
            name = string_value(following) if mark == "[" else name_value(following)
            value = (
                self.lineage.below(value, Path((name,)))
                if mark == ":"
                else self.lineage.fields(value, [name])
            )
            at += 3 if mark == "[" else 2
        return value

    def _postfix(self, at: int) -> int:
        while True:
            if self._word(at).text in {".", ":"} and self._word(at + 1).kind in _NAMES:
                at += 2
            elif self._word(at).text == "[" and self._word(at + 2).text == "]":
                at += 3
            else:
                return at

    def _at_colon(self, at: int) -> None:
        """``json:a.b`` on its own; as an argument it has been read already."""
        if (
            self._word(at).text != ":"
            or self._word(at - 1).kind not in _NAMES
            or self._word(at - 1).text == ":"
        ):
            return
        start = at - 1
        while self._word(start - 1).text == "." and self._word(start - 2).kind in _NAMES:
            start -= 2
        if self._word(start - 1).text in {":", "."} or self._word(at + 1).kind not in _NAMES:
            return
        known = {table.json_column for table, _ in self._raw.values()} | set(self._named)
        if self._low(at - 1) in known:
            self._primary(start)

    # -- arguments

    def _closing(self, opening: int) -> int:
        """Return the place after the bracket that closes the one at ``opening``; the text's end where none does."""
        return self._closings.get(opening, len(self.words))

    def _arguments(self, opening: int) -> list[tuple[int, int]]:
        """Return where each argument begins and ends."""
        end = self._closing(opening)
        inner = end - 1 if self._word(end - 1).text == ")" else end
        found, start, at = [], opening + 1, opening + 1
        while at < inner:
            if self._word(at).text in {"(", "["} and self._word(at).kind is Kind.MARK:
                at = self._closing(at)
                continue
            if self._word(at).text == ",":
                found.append((start, at))
                start = at + 1
            at += 1
        return [*found, (start, inner)] if start < inner else found

    def _path(self, call: Call, start: int, end: int) -> Path | Unresolved:
        word = self._word(start)
        # Behind the path there may be words (RETURNING INT), but no operator.
        if word.kind is Kind.STRING and (end == start + 1 or self._word(start + 1).kind is Kind.NAME):
            assert call.style is not None
            return read_path(string_value(word), call.style)
        return Unresolved.BAD_PATH if word.kind is Kind.OPEN else Unresolved.PATH

    def _schema(self, rest: list[tuple[int, int]]) -> dict[str, object] | None:
        if not rest or self._word(rest[0][0]).kind is not Kind.STRING:
            return None
        return schema_of(string_value(self._word(rest[0][0])))

    def _use_names(self) -> None:
        """A named value is used for itself where its name stands more often than it is defined and taken apart."""
        seen = Counter(self._low(at) for at in range(len(self.words)) if self._word(at).kind in _NAMES)
        for name, defined in self._named.items():
            if len(defined) == 1 and seen[name] > 1 + self._as_base[name] and self._is_call(defined[0].at):
                self.lineage.use(self._defined(defined[0]))
