"""JSON functions: which functions extract keys from JSON, and how their arguments name the keys.

The table holds the built-in functions of Hive, Spark, Databricks and Trino; the configuration adds
user-defined ones. ``parse_schema`` reads the fields in the schema argument of ``from_json``:
``a INT, u STRUCT<b: STRING>``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from state.columns.paths import KeyPath
from state.errors import BadInput
from streaming.mining.model import CustomFunction, Style, Unresolved
from streaming.mining.templates import has_placeholder
from streaming.mining.tokens import Token, TokenKind, name_value, tokenize


Schema = dict[str, Any]
"""Field names mapped to the schema below them, or to None for a field that is not a struct."""


@dataclass(frozen=True, slots=True)
class JsonFunction:
    """How to read the arguments of a function."""

    style: Style | None
    """None if the function names no key and returns the parsed document (``from_json``, ``parse_json``)."""
    document: int = 0
    """The index of the argument with the document."""
    takes_many: bool = False
    """Whether every argument after the document is a key; otherwise only the next one is."""
    is_chain: bool = False
    """Whether the arguments after the document are the members of one key."""


@dataclass(frozen=True, slots=True)
class Path:
    """A key that a call names."""

    members: tuple[str, ...]
    ends_in_array: bool = False
    """Whether the path continues into an array. Anything extracted from the value then lies within this key
    too."""


_PATH: Final = JsonFunction(Style.JSON_PATH)
_PARSE: Final = JsonFunction(None)
_MEMBER: Final = JsonFunction(Style.MEMBER)
_DOTTED: Final = JsonFunction(Style.DOTTED)
_CHAIN: Final = JsonFunction(Style.MEMBER, takes_many=True, is_chain=True)
_BUILT_IN: Final = {
    "get_json_object": _PATH,
    "variant_get": _PATH,
    "try_variant_get": _PATH,
    "json_extract": _PATH,
    "json_extract_scalar": _PATH,
    "json_query": _PATH,
    "json_value": _PATH,
    "json_tuple": JsonFunction(Style.MEMBER, takes_many=True),
    "from_json": _PARSE,
    "parse_json": _PARSE,
    "try_parse_json": _PARSE,
    "json_parse": _PARSE,
    # Hive 4
    "json_read": _PARSE,
    # Trino and the SQL standard
    "json_exists": _PATH,
    "json_size": _PATH,
    # Snowflake, Redshift and PostgreSQL
    "get_path": _DOTTED,
    "get_ignore_case": _MEMBER,
    "json_extract_path": _CHAIN,
    "json_extract_path_text": _CHAIN,
    "jsonb_extract_path": _CHAIN,
    "jsonb_extract_path_text": _CHAIN,
    "jsonb_path_query": _PATH,
    "jsonb_path_query_first": _PATH,
    "jsonb_path_exists": _PATH,
    # BigQuery, DuckDB, StarRocks and Doris
    "json_extract_array": _PATH,
    "json_extract_string_array": _PATH,
    "json_query_array": _PATH,
    "json_value_array": _PATH,
    "json_extract_string": _PATH,
    "get_json_string": _PATH,
    "get_json_int": _PATH,
    "get_json_bigint": _PATH,
    "get_json_double": _PATH,
    "get_json_bool": _PATH,
    # ClickHouse
    **dict.fromkeys(
        (
            f"jsonextract{kind}"
            for kind in ("string", "int", "uint", "float", "bool", "raw", "arrayraw", "keys")
        ),
        _CHAIN,
    ),
    **dict.fromkeys(
        (f"simplejsonextract{kind}" for kind in ("string", "int", "uint", "float", "bool", "raw")),
        _MEMBER,
    ),
}
_MODE: Final = re.compile(r"\s*(?:lax|strict)\s+(?=\$)", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\['(?:[^'\\]|\\.)*'\]|\[\"(?:[^\"\\]|\\.)*\"\]")
_QUOTED_MEMBER: Final = re.compile(r'\."((?:[^"\\]|\\.)+)"')
_EXPRESSION: Final = re.compile(r"\s*\?\s*\(.*|\.\w+\(.*", re.DOTALL)
"""A filter or a method of a path: it concerns values within the key before it."""
_ENDS: Final = re.compile(r"\[\s*[\d*:]|\.\*")


def functions_by_name(custom: Iterable[CustomFunction]) -> dict[str, JsonFunction]:
    """Return all functions by lower-case name without database. A user-defined function replaces a built-in
    one of the same name.
    """
    own = {
        each.name.lower().rpartition(".")[2]: JsonFunction(
            each.style, each.document_argument, takes_many=True
        )
        for each in custom
    }
    return _BUILT_IN | own


def parse_path(text: str, style: Style) -> Path | Unresolved:
    """Return the key that an argument names, or the reason why it does not name one.

    Ignores blanks before a member of a JSON path, as Spark does; Hive looks for a member whose name begins
    with them.
    """
    if has_placeholder(text):
        return Unresolved.VARIABLE
    if style is Style.MEMBER:
        return Path((text,)) if text else Unresolved.BAD_PATH
    if style is Style.JSON_PATH:
        text = _MODE.sub("", text).strip()
        if '"' in text or "(" in text:  # $."a b" and $.a ? (@ > 1), as the SQL standard writes them
            text = _EXPRESSION.sub("[*]", _QUOTED_MEMBER.sub(r'["\1"]', text))
        if text == "$":
            return Unresolved.WHOLE
    try:
        key = KeyPath.of_json_path(text) if style is Style.JSON_PATH else KeyPath.of_dotted(text)
    except BadInput:
        return Unresolved.BAD_PATH
    members = tuple(map(str.lstrip, key.members)) if style is Style.JSON_PATH else key.members
    return Path(members, ends_in_array=_is_ended(text)) if all(members) else Unresolved.BAD_PATH


def parse_chain(texts: Sequence[str]) -> Path | Unresolved:
    """Return the key whose members are separate arguments. A single one may have dots, as in Snowflake."""
    style = Style.DOTTED if len(texts) == 1 else Style.MEMBER
    return join_paths([parse_path(text, style) for text in texts])


def parse_member(text: str) -> Path | Unresolved:
    """Return the key in brackets and quotes, in which ``$`` has no special meaning."""
    return Path((text,)) if text.startswith("$") and "{" not in text else parse_path(text, Style.MEMBER)


def parse_operand(text: str) -> Path | Unresolved:
    """Return the key after ``->`` and ``->>``: a JSON path (MySQL, SQLite) or one member (PostgreSQL)."""
    return parse_path(text, Style.JSON_PATH if text.startswith("$") else Style.MEMBER)


def parse_path_array(text: str) -> Path | Unresolved:
    """Return the key after ``#>`` and ``#>>``: ``{a,b}``."""
    if not (text.startswith("{") and text.endswith("}")):
        return Unresolved.BAD_PATH
    names = [name.strip().strip('"') for name in text[1:-1].split(",")]
    end = next((at for at, name in enumerate(names) if name.lstrip("-").isdigit()), len(names))
    paths = [parse_member(name) for name in names[:end]]
    return join_paths(paths, ends_in_array=end < len(names))


def join_paths(paths: Sequence[Path | Unresolved], *, ends_in_array: bool = False) -> Path | Unresolved:
    """Return the key of all paths joined, up to the first array, or the reason why one of the paths does not
    name a key.
    """
    members: list[str] = []
    for path in paths:
        if isinstance(path, Unresolved):
            return path
        members += path.members
        if path.ends_in_array:
            ends_in_array = True
            break
    return Path(tuple(members), ends_in_array) if members else Unresolved.BAD_PATH


def _is_ended(text: str) -> bool:
    if "[" not in text and "*" not in text:
        return False
    return _ENDS.search(_QUOTED.sub("", text)) is not None


_CHARS_MAX: Final = 65_536
_DEPTH_MAX: Final = 32


@lru_cache(maxsize=1_024)
def parse_schema(text: str) -> Schema | None:
    """Return the fields of a schema in Spark's DDL form; None for any other text, or if the type is not a
    struct.
    """
    if len(text) > _CHARS_MAX or text.lstrip()[:1] in {"{", '"'}:
        return None
    tokens = list(tokenize(text))
    if len(tokens) > 1 and tokens[1].text == "<":
        return _type(tokens, 0, 0)[0]
    return _fields(tokens, 0, 0)[0] or None


def _fields(tokens: list[Token], at: int, depth: int) -> tuple[Schema, int]:
    """Read ``name [:] type, …`` up to the end or the closing ``>``."""
    schema: Schema = {}
    while at + 1 < len(tokens) and tokens[at].text != ">":
        if tokens[at].kind not in {TokenKind.NAME, TokenKind.QUOTED} or depth > _DEPTH_MAX:
            return {}, len(tokens)
        name = name_value(tokens[at])
        at += 2 if tokens[at + 1].text == ":" else 1
        schema[name], at = _type(tokens, at, depth)
        at += at < len(tokens) and tokens[at].text == ","
    return schema, at + 1


def _type(tokens: list[Token], at: int, depth: int) -> tuple[Schema | None, int]:
    """Read a type and everything up to the next comma of this level."""
    fields: Schema | None = None
    if at + 1 < len(tokens) and tokens[at].text.lower() == "struct" and tokens[at + 1].text == "<":
        fields, at = _fields(tokens, at + 2, depth + 1)
    level = 0
    while at < len(tokens) and (level or tokens[at].text not in {",", ">"}):
        level += (tokens[at].text in {"<", "("}) - (tokens[at].text in {">", ")"})
        at += 1
    return fields, at
