"""The parser: sqlglot, configured to keep the arguments of JSON functions as written, and to refuse other
texts than statements.

The parser renames JSON functions in the token list first, so that the tree holds their arguments unchanged.
sqlglot would otherwise parse the paths itself, with different rules: it does not read ``$.0``, and warns if a
path contains a variable.
"""

from __future__ import annotations

import logging
from collections.abc import Container
from itertools import pairwise
from typing import Final

from sqlglot import TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel, SqlglotError


FUNCTION_PREFIX: Final = "j__"
"""The prefix of JSON functions in the tree. It is short, because sqlglot reads each name again to see whether
it is a type."""
_FORMULAS: Final = (exp.Condition, exp.Alias, exp.Tuple, exp.Aliases)

# sqlglot warns about statements that it keeps as text; the scanner reads those.
logging.getLogger("sqlglot").setLevel(logging.ERROR)


class NotParsed(Exception):  # noqa: N818 - an outcome that the miner handles; it never leaves this package
    """This dialect does not accept the text."""


def parse_statements(text: str, dialect: str, functions: Container[str]) -> list[exp.Expr]:
    """Return the statements of ``text``; raise NotParsed if the dialect does not accept all of it."""
    speaker = Dialect.get_or_raise(dialect)
    # The operands of -> and ->> stay as written, like the arguments of functions.
    speaker.to_json_path = _leave_path  # type: ignore[method-assign]
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
        # Other errors than SqlglotError are bugs of sqlglot with unusual texts. The scanner reads these
        # texts.
        raise NotParsed(type(error).__name__) from error
    statements = [each for each in found if each is not None]
    if not all(map(_is_understood, statements)):
        raise NotParsed("not a statement")
    return statements


def _leave_path(path: exp.Expr | None) -> exp.Expr | None:
    return path


def _is_understood(statement: exp.Expr) -> bool:
    """Whether sqlglot understood a statement. It keeps some as text (EXPLAIN, CREATE MACRO), and reads a line
    of code as a formula.
    """
    if isinstance(statement, exp.Command):
        return not any(
            mark in str(part) for part in statement.args.values() for mark in ("(", ":", "->", "#>")
        )
    return isinstance(statement, exp.Query) or not isinstance(statement, _FORMULAS)
