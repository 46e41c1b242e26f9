"""The parser of the filter language: the metastore's grammar, by recursive descent.

::

    or   := and (OR and)*        and := term (AND term)*
    term := '(' or ')' [IS [NOT] TRUE|FALSE] | column op constant | constant op column
          | column [NOT] BETWEEN constant AND constant
          | '(' column ')' [NOT] IN '(' constant, .. ')' [IS [NOT] TRUE|FALSE]
          | '(' STRUCT '(' column, .. ')' ')' [NOT] IN '(' [CONST] STRUCT '(' constant, .. ')', .. ')'

Errors name what was found and where, and begin like Hive's. Hive 4.0 to 4.2 accept exactly two structs in a list, an oversight of
their grammar. This parser accepts any number in both dialects, and refuses structs of another size than the list of columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NoReturn, TypeVar

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
    invert,
    join_nodes,
)


if TYPE_CHECKING:
    from collections.abc import Callable


T = TypeVar("T")
_OPERATORS: Final = {operator.value: operator for operator in Operator} | {
    "<>": Operator.NOT_EQUAL,
    "==": Operator.EQUAL,
}


def parse_filter(text: str, dialect: Dialect) -> Node | None:
    """Return the syntax tree of a filter, None for an empty one (all partitions).

    Raises BadFilter with the position of the error, and LimitExceeded for a filter that is too long, is nested too deeply or has
    too many conditions.
    """
    if len(text) > FILTER_CHARS_MAX:
        raise LimitExceeded(
            f"{PREFIX}: the filter is too long", size_chars=len(text), limit_chars=FILTER_CHARS_MAX
        )
    if not text.strip():
        return None
    return _Parser(text, dialect).parse()


class _Parser:
    """Parses one filter from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._tokens = tokenize(text, dialect.hive_version)
        self._dialect = dialect
        self._next = 0
        self._depth = 0
        self._conditions = 0

    def parse(self) -> Node:
        node = self._parse_or()
        if not self._dialect.ignore_trailing_input and self._peek().kind is not TokenKind.END:
            self._refuse("the end, or AND or OR")
        return node

    def _parse_or(self) -> Node:
        return self._parse_chain("OR", Or, self._parse_and)

    def _parse_and(self) -> Node:
        return self._parse_chain("AND", And, self._parse_term)

    def _parse_chain(self, keyword: str, kind: type[And | Or], part: Callable[[], Node]) -> Node:
        children = [part()]
        while self._take(keyword):
            children.append(part())
        return join_nodes(kind, children)

    def _parse_term(self) -> Node:
        if not self._is("("):
            return self._parse_condition()
        second, third = self._peek(1), self._peek(2)
        if second.kind is TokenKind.KEYWORD and second.text == "STRUCT":
            return self._parse_struct_membership()
        if second.kind is TokenKind.NAME and third.text == ")" and third.kind is TokenKind.MARK:
            return self._parse_membership()
        return self._parse_nested()

    def _parse_nested(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise LimitExceeded(
                f"{PREFIX}: parentheses are nested too deeply", limit=DEPTH_MAX, position=self._peek().at
            )
        self._expect("(")
        node = self._parse_or()
        self._expect(")")
        self._depth -= 1
        return self._parse_truth(node)

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
        return self._parse_truth(
            self._count_conditions(Membership(column, tuple(literals), negated), len(literals))
        )

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
            raise LimitExceeded(f"{PREFIX}: the filter has too many conditions", limit=CONDITIONS_MAX)
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
        found = f"'{token.text[:40]}'" if token.text else token.kind.value
        raise BadFilter(
            f"{PREFIX}: {found} at position {token.at} where {expected} was expected",
            position=token.at,
            found=token.text[:40],
        )
