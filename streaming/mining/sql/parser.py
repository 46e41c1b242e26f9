"""sqlglot's parser, as mining uses it: our functions' arguments stay as written, and what is no statement is refused.

The functions that take JSON apart are renamed in the token list before parsing. So the tree holds their arguments: sqlglot would
read the paths itself, and has other ideas of them (it does not read ``$.0``, and warns where a variable stands in one).
"""

from __future__ import annotations

import logging
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError


if TYPE_CHECKING:
    from collections.abc import Container


FUNCTION_PREFIX: Final = "j__"
"""Stands before the names of our functions in the tree; short, because sqlglot reads a name again to see if it is a type."""
_FORMULAS: Final = (exp.Condition, exp.Alias, exp.Tuple, exp.Aliases)

# It warns of what it keeps as text; the scanner reads that.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class NotParsed(Exception):  # noqa: N818 - an outcome that the miner handles; it never leaves this package
    """This dialect does not take the text."""


def parse_statements(text: str, dialect: str, functions: Container[str]) -> list[exp.Expr]:
    """Return the statements of ``text``; raise NotParsed where the dialect does not take all of it."""
    speaker = Dialect.get_or_raise(dialect)
    try:
        tokens = speaker.tokenize(text)
        for word, following in pairwise(tokens):
            if following.token_type is TokenType.L_PAREN and word.text.lower() in functions:
                word.text = FUNCTION_PREFIX + word.text.lower()
                word.token_type = TokenType.VAR
            elif word.token_type is TokenType.JSON:
                word.token_type = TokenType.VAR
        found = speaker.parser(error_level=ErrorLevel.IMMEDIATE).parse(tokens, text)
    except (
        SqlglotError,
        RecursionError,
        ValueError,
        AttributeError,
        IndexError,
        TypeError,
        KeyError,
    ) as error:
        # Errors other than its own are its bugs on texts that nobody thought of; the scanner takes any text.
        raise NotParsed(type(error).__name__) from error
    statements = [each for each in found if each is not None]
    if not all(map(_is_understood, statements)):
        raise NotParsed("no statement")
    return statements


def _is_understood(statement: exp.Expr) -> bool:
    """Whether it is a statement: not a text that sqlglot keeps (EXPLAIN, CREATE MACRO), nor a program's line, read as a formula."""
    if isinstance(statement, exp.Command):
        return not any("(" in str(part) or ":" in str(part) for part in statement.args.values())
    return isinstance(statement, exp.Query) or not isinstance(statement, _FORMULAS)
