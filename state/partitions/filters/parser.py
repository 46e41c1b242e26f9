"""Reading a filter: the metastore's grammar, by recursive descent.

::

    or   := and (OR and)*        and := term (AND term)*
    term := '(' or ')' [IS [NOT] TRUE|FALSE] | column op constant | constant op column
          | column [NOT] BETWEEN constant AND constant
          | '(' column ')' [NOT] IN '(' constant, .. ')' [IS [NOT] TRUE|FALSE]
          | '(' STRUCT '(' column, .. ')' ')' [NOT] IN '(' [CONST] STRUCT '(' constant, .. ')', .. ')'

Errors say what stood where, and begin as Hive's do. Hive 4.0 to 4.2 take exactly two structs in a list, an oversight of its
grammar; here any number, in both generations, and never structs of another size than the columns.
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


def parse(text: str, dialect: Dialect) -> Node | None:
    """Return the tree of a filter, None for an empty one (all partitions).

    Raises BadFilter with the position of what does not belong there, LimitExceeded for a text that is too long, too deep or
    has too many conditions.
    """
    if len(text) > FILTER_CHARS_MAX:
        raise LimitExceeded(f"{PREFIX}: it is too long", size_chars=len(text), limit_chars=FILTER_CHARS_MAX)
    if not text.strip():
        return None
    return _Parser(text, dialect).filter()


class _Parser:
    """One text, read from left to right."""

    def __init__(self, text: str, dialect: Dialect) -> None:
        self._words = tokenize(text, dialect.hive_version)
        self._dialect = dialect
        self._next = 0
        self._depth = 0
        self._conditions = 0

    def filter(self) -> Node:
        node = self._or()
        if not self._dialect.ignore_trailing_input and self._peek().kind is not TokenKind.END:
            self._refuse("the end, or AND or OR")
        return node

    def _or(self) -> Node:
        return self._chain("OR", Or, self._and)

    def _and(self) -> Node:
        return self._chain("AND", And, self._term)

    def _chain(self, keyword: str, kind: type[And | Or], part: Callable[[], Node]) -> Node:
        children = [part()]
        while self._take(keyword):
            children.append(part())
        return join_nodes(kind, children)

    def _term(self) -> Node:
        if not self._is("("):
            return self._condition()
        second, third = self._peek(1), self._peek(2)
        if second.kind is TokenKind.KEYWORD and second.text == "STRUCT":
            return self._struct_membership()
        if second.kind is TokenKind.NAME and third.text == ")" and third.kind is TokenKind.MARK:
            return self._membership()
        return self._nested()

    def _nested(self) -> Node:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise LimitExceeded(
                f"{PREFIX}: parentheses are nested too deep", limit=DEPTH_MAX, position=self._peek().at
            )
        self._expect("(")
        node = self._or()
        self._expect(")")
        self._depth -= 1
        return self._truth(node)

    def _truth(self, node: Node) -> Node:
        """``IS [NOT] TRUE|FALSE`` behind a parenthesis."""
        if self._dialect.hive_version is HiveVersion.HIVE_2 or not self._take("IS"):
            return node
        negated = self._take("NOT")
        is_true = self._take("TRUE")
        if not is_true:
            self._expect("FALSE")
        return invert(node) if negated == is_true else node

    def _condition(self) -> Node:
        if self._peek().kind is TokenKind.LITERAL:
            literal = self._literal()
            operator = self._operator()
            return self._counted(Comparison(self._column(), operator, literal, reversed=True))
        column = self._column()
        negated = self._take("NOT")
        if negated or self._is("BETWEEN"):
            return self._between(column, negated)
        return self._counted(Comparison(column, self._operator(), self._literal()))

    def _between(self, column: Column, negated: bool) -> Node:
        self._expect("BETWEEN")
        low = self._literal()
        self._expect("AND")
        high = self._literal()
        if negated:
            below, above = Operator.LESS, Operator.GREATER
            return self._counted(Or((Comparison(column, below, low), Comparison(column, above, high))))
        least, most = Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL
        return self._counted(And((Comparison(column, least, low), Comparison(column, most, high))))

    def _membership(self) -> Node:
        self._expect("(")
        column = self._column()
        self._expect(")")
        negated = self._take("NOT")
        self._expect("IN")
        literals = self._listed(self._literal)
        if (
            self._dialect.hive_version is HiveVersion.HIVE_2
            and len({type(item.value) for item in literals}) > 1
        ):
            raise BadFilter(f"{PREFIX}: a list holds constants of two types", position=literals[0].at)
        return self._truth(self._counted(Membership(column, tuple(literals), negated), len(literals)))

    def _struct_membership(self) -> Node:
        self._expect("(")
        self._expect("STRUCT")
        columns = self._listed(self._column)
        self._expect(")")
        negated = self._take("NOT")
        self._expect("IN")
        rows = self._listed(lambda: self._struct(len(columns)))
        alternatives: list[Node] = [
            join_nodes(
                And,
                [Comparison(column, Operator.EQUAL, item) for column, item in zip(columns, row, strict=True)],
            )
            for row in rows
        ]
        node = self._counted(join_nodes(Or, alternatives), len(rows) * len(columns))
        return self._truth(invert(node) if negated else node)

    def _struct(self, size: int) -> list[Literal]:
        self._take("CONST")
        at = self._peek().at
        self._expect("STRUCT")
        row = self._listed(self._literal)
        if len(row) != size:
            raise BadFilter(
                f"{PREFIX}: a struct of another size than the columns", position=at, size=len(row)
            )
        return row

    def _listed(self, part: Callable[[], T]) -> list[T]:
        self._expect("(")
        items = [part()]
        while self._take(","):
            items.append(part())
        self._expect(")")
        return items

    def _column(self) -> Column:
        word = self._peek()
        if word.kind is not TokenKind.NAME:
            self._refuse("a column")
        self._next += 1
        return Column(word.text, word.at)

    def _literal(self) -> Literal:
        word = self._peek()
        if word.kind is not TokenKind.LITERAL:
            self._refuse("a constant")
        self._next += 1
        return Literal(word.value, word.at)

    def _operator(self) -> Operator:
        word = self._peek()
        operator = (
            _OPERATORS.get(word.text.lower())
            if word.kind is TokenKind.OPERATOR or word.kind is TokenKind.KEYWORD
            else None
        )
        if operator is None or (word.text == "==" and self._dialect.hive_version is HiveVersion.HIVE_2):
            self._refuse("an operator")
        self._next += 1
        return operator

    def _counted(self, node: Node, conditions: int = 1) -> Node:
        self._conditions += conditions
        if self._conditions > CONDITIONS_MAX:
            raise LimitExceeded(f"{PREFIX}: it has too many conditions", limit=CONDITIONS_MAX)
        return node

    def _peek(self, ahead: int = 0) -> Token:
        return self._words[self._next + ahead]

    def _is(self, text: str) -> bool:
        word = self._words[self._next]
        return word.text == text and (word.kind is TokenKind.KEYWORD or word.kind is TokenKind.MARK)

    def _take(self, text: str) -> bool:
        if not self._is(text):
            return False
        self._next += 1
        return True

    def _expect(self, text: str) -> None:
        if not self._take(text):
            self._refuse(text)

    def _refuse(self, wanted: str) -> NoReturn:
        word = self._peek()
        found = f"'{word.text[:40]}'" if word.text else word.kind.value
        raise BadFilter(
            f"{PREFIX}: {found} at position {word.at} where {wanted} was expected",
            position=word.at,
            found=word.text[:40],
        )
