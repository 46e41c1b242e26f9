"""The parser of the filter language: the metastore's grammar,
by recursive descent, with an explicit stack for parentheses.

::

    or   := and (OR and)*        and := term (AND term)*
    term := '(' or ')' [IS [NOT] TRUE|FALSE] | column op constant | constant op column
          | column [NOT] BETWEEN constant AND constant
          | '(' column ')' [NOT] IN '(' constant, .. ')' [IS [NOT] TRUE|FALSE]
          | '(' STRUCT '(' column, .. ')' ')' [NOT] IN '(' [CONST] STRUCT '(' constant, .. ')', .. ')'

Errors name the token and its position, and begin like Hive's. Hive 4.0 to 4.2 accept exactly two structs in a
list, an oversight of their grammar. This parser accepts any number in both dialects, and refuses structs of
another size than the list of columns.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeVar

from state.errors import BadFilter, LimitExceeded
from state.partitions.filters.dialect import CONDITIONS_MAX, DEPTH_MAX, FILTER_CHARS_MAX, Dialect, HiveVersion
from state.partitions.filters.lexer import Token, TokenKind, tokenize
from state.partitions.filters.syntax_tree import (
    PREFIX,
    And,
    Column,
    Comparison,
    Literal,
    Membership,
    Node,
    Operator,
    Or,
    excerpt,
    invert,
    join_nodes,
)


T = TypeVar("T")
SIMPLIFY: Final = "Send several shorter filters, or write alternatives of one column as a list."
"""Hint for a filter beyond one of the fixed limits."""
_QUOTES: Final = frozenset("'\"`")
_OPERATORS: Final = {operator.value: operator for operator in Operator} | {
    "<>": Operator.NOT_EQUAL,
    "==": Operator.EQUAL,
}


def parse_filter(text: str, dialect: Dialect) -> Node | None:
    """Return the syntax tree of a filter, None for an empty one (all partitions);
    as in Hive, a blank is not an empty filter.

    Raises BadFilter with the position of the error, and LimitExceeded for a filter that is too long, is
    nested too deeply or has too many conditions.
    """
    if len(text) > FILTER_CHARS_MAX:
        raise LimitExceeded(
            f"{PREFIX}: the filter is too long",
            hint=SIMPLIFY,
            size_chars=len(text),
            limit_chars=FILTER_CHARS_MAX,
        )
    if not text:
        return None
    return _Parser(text, dialect).parse()


@dataclass(slots=True)
class _Level:
    """The terms of one level of parentheses so far:
    complete alternatives, and the factors of the current one.
    """

    alternatives: list[Node] = field(default_factory=list)
    factors: list[Node] = field(default_factory=list)

    def end_factors(self) -> None:
        self.alternatives.append(join_nodes(And, self.factors))
        self.factors = []

    def join(self) -> Node:
        return join_nodes(Or, self.alternatives)


class _Parser:
    """Parses one filter from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._tokens = tokenize(text, dialect.hive_version, has_escapes=dialect.has_escapes)
        self._dialect = dialect
        self._next = 0
        self._conditions = 0

    def parse(self) -> Node:
        node = self._parse_or()
        if not self._dialect.ignore_trailing_input and self._peek().kind is not TokenKind.END:
            self._refuse("the end, or AND or OR")
        return node

    def _parse_or(self) -> Node:
        """Parse a filter with its own stack of parentheses, because the caller may have used most of
        Python's stack.
        """
        outer: list[_Level] = []
        level = _Level()
        while True:
            if self._is_nested():
                self._open_nested(len(outer))
                outer.append(level)
                level = _Level()
                continue
            node = self._parse_term()
            while not self._continues(level, node):
                if not outer:
                    return level.join()
                self._expect(")")
                node, level = self._parse_truth(level.join()), outer.pop()

    def _continues(self, level: _Level, node: Node) -> bool:
        """Add a term to its level; return whether AND or OR and thus another term follows."""
        level.factors.append(node)
        if self._take("AND"):
            return True
        level.end_factors()
        return self._take("OR")

    def _is_nested(self) -> bool:
        return self._is("(") and not self._is_struct() and not self._is_membership()

    def _is_struct(self) -> bool:
        second = self._peek(1)
        return second.kind is TokenKind.KEYWORD and second.text == "STRUCT"

    def _is_membership(self) -> bool:
        second, third = self._peek(1), self._peek(2)
        return second.kind is TokenKind.NAME and third.text == ")" and third.kind is TokenKind.MARK

    def _open_nested(self, depth: int) -> None:
        if depth >= DEPTH_MAX:
            raise LimitExceeded(
                f"{PREFIX}: parentheses are nested too deeply",
                hint=SIMPLIFY,
                limit=DEPTH_MAX,
                position=self._peek().at,
            )
        self._expect("(")

    def _parse_term(self) -> Node:
        if not self._is("("):
            return self._parse_condition()
        return self._parse_struct_membership() if self._is_struct() else self._parse_membership()

    def _parse_truth(self, node: Node) -> Node:
        """Parse ``IS [NOT] TRUE|FALSE`` after a parenthesis."""
        if self._dialect.hive_version is HiveVersion.HIVE_2 or not self._take("IS"):
            return node
        negated = self._take("NOT")
        is_true = self._take("TRUE")
        if not is_true:
            self._expect("FALSE")
        return invert(node) if negated == is_true else node

    def _parse_condition(self) -> Node:
        if self._peek().kind is TokenKind.LITERAL:
            literal = self._parse_literal()
            operator = self._parse_operator()
            return self._count_conditions(Comparison(self._parse_column(), operator, literal, reversed=True))
        column = self._parse_column()
        negated = self._take("NOT")
        if negated or self._is("BETWEEN"):
            return self._parse_between(column, negated)
        return self._count_conditions(Comparison(column, self._parse_operator(), self._parse_literal()))

    def _parse_between(self, column: Column, negated: bool) -> Node:
        self._expect("BETWEEN")
        low = self._parse_literal()
        self._expect("AND")
        high = self._parse_literal()
        if negated:
            below, above = Operator.LESS, Operator.GREATER
            return self._count_conditions(
                Or((Comparison(column, below, low), Comparison(column, above, high)))
            )
        least, most = Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL
        return self._count_conditions(And((Comparison(column, least, low), Comparison(column, most, high))))

    def _parse_membership(self) -> Node:
        self._expect("(")
        column = self._parse_column()
        self._expect(")")
        negated = self._take("NOT")
        self._expect("IN")
        literals = self._parse_list(self._parse_literal)
        if (
            self._dialect.hive_version is HiveVersion.HIVE_2
            and len({type(item.value) for item in literals}) > 1
        ):
            raise BadFilter(f"{PREFIX}: the constants of a list must have one type", position=literals[0].at)
        is_misread = negated and self._is("IS") and self._peek(1).text == "NOT"
        node = Membership(column, tuple(literals), negated, is_misread)
        return self._parse_truth(self._count_conditions(node, len(literals)))

    def _parse_struct_membership(self) -> Node:
        self._expect("(")
        self._expect("STRUCT")
        columns = self._parse_list(self._parse_column)
        self._expect(")")
        negated = self._take("NOT")
        self._expect("IN")
        rows = self._parse_list(lambda: self._parse_struct(len(columns)))
        alternatives: list[Node] = [
            join_nodes(
                And,
                [Comparison(column, Operator.EQUAL, item) for column, item in zip(columns, row, strict=True)],
            )
            for row in rows
        ]
        node = self._count_conditions(join_nodes(Or, alternatives), len(rows) * len(columns))
        return self._parse_truth(invert(node) if negated else node)

    def _parse_struct(self, size: int) -> list[Literal]:
        self._take("CONST")
        at = self._peek().at
        self._expect("STRUCT")
        row = self._parse_list(self._parse_literal)
        if len(row) != size:
            raise BadFilter(
                f"{PREFIX}: a struct must have as many constants as there are columns",
                position=at,
                size=len(row),
            )
        return row

    def _parse_list(self, part: Callable[[], T]) -> list[T]:
        self._expect("(")
        items = [part()]
        while self._take(","):
            items.append(part())
        self._expect(")")
        return items

    def _parse_column(self) -> Column:
        token = self._peek()
        if token.kind is not TokenKind.NAME:
            self._refuse("a column")
        self._next += 1
        return Column(token.text, token.at)

    def _parse_literal(self) -> Literal:
        token = self._peek()
        if token.kind is not TokenKind.LITERAL:
            self._refuse("a constant")
        self._next += 1
        return Literal(token.value, token.at)

    def _parse_operator(self) -> Operator:
        token = self._peek()
        operator = (
            _OPERATORS.get(token.text.lower())
            if token.kind is TokenKind.OPERATOR or token.kind is TokenKind.KEYWORD
            else None
        )
        if operator is None or (token.text == "==" and self._dialect.hive_version is HiveVersion.HIVE_2):
            self._refuse("an operator")
        self._next += 1
        return operator

    def _count_conditions(self, node: Node, conditions: int = 1) -> Node:
        self._conditions += conditions
        if self._conditions > CONDITIONS_MAX:
            raise LimitExceeded(
                f"{PREFIX}: the filter has too many conditions", hint=SIMPLIFY, limit=CONDITIONS_MAX
            )
        return node

    def _peek(self, ahead: int = 0) -> Token:
        return self._tokens[self._next + ahead]

    def _is(self, text: str) -> bool:
        token = self._tokens[self._next]
        return token.text == text and (token.kind is TokenKind.KEYWORD or token.kind is TokenKind.MARK)

    def _take(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._refuse(text)

    def _refuse(self, expected: str) -> NoReturn:
        token = self._peek()
        if token.kind is TokenKind.UNKNOWN and token.text in _QUOTES:
            raise BadFilter(
                f"{PREFIX}: the quote {token.text} at position {token.at} is not closed",
                position=token.at,
                found=token.text,
            )
        found = f"'{excerpt(token.text)}'" if token.text else token.kind.value
        raise BadFilter(
            f"{PREFIX}: {found} at position {token.at} where {expected} was expected",
            position=token.at,
            found=excerpt(token.text),
        )
