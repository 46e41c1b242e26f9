"""The fields that ``from_json``'s schema names: ``a INT, u STRUCT<b: STRING>``."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

from streaming.mining.tokens import Kind, Token, name_value, tokens


if TYPE_CHECKING:
    from streaming.mining.lineage import Schema


_CHARS_MAX: Final = 65_536
_DEPTH_MAX: Final = 32


@lru_cache(maxsize=1_024)
def schema_of(text: str) -> Schema | None:
    """Return the fields of a schema in Spark's DDL form; None where it is none, or no struct."""
    if len(text) > _CHARS_MAX or text.lstrip()[:1] in {"{", '"'}:
        return None
    words = list(tokens(text))
    if len(words) > 1 and words[1].text == "<":
        return _type(words, 0, 0)[0]
    return _fields(words, 0, 0)[0] or None


def _fields(words: list[Token], at: int, depth: int) -> tuple[Schema, int]:
    """Read ``name [:] type, …`` up to the end or the ``>`` that closes it."""
    found: Schema = {}
    while at + 1 < len(words) and words[at].text != ">":
        if words[at].kind not in {Kind.NAME, Kind.QUOTED} or depth > _DEPTH_MAX:
            return {}, len(words)
        name = name_value(words[at])
        at += 2 if words[at + 1].text == ":" else 1
        found[name], at = _type(words, at, depth)
        at += at < len(words) and words[at].text == ","
    return found, at + 1


def _type(words: list[Token], at: int, depth: int) -> tuple[Schema | None, int]:
    """Read a type with what follows it up to the next comma of this level."""
    fields: Schema | None = None
    if at + 1 < len(words) and words[at].text.lower() == "struct" and words[at + 1].text == "<":
        fields, at = _fields(words, at + 2, depth + 1)
    level = 0
    while at < len(words) and (level or words[at].text not in {",", ">"}):
        level += (words[at].text in {"<", "("}) - (words[at].text in {">", ")"})
        at += 1
    return fields, at
