"""Which functions take keys out of JSON, and how their arguments name them.

The table holds what Hive, Spark, Databricks and Trino have built in; the configuration adds the user's own functions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from state.columns.paths import KeyPath
from state.errors import BadInput
from streaming.mining.values import Style, Unresolved


if TYPE_CHECKING:
    from collections.abc import Iterable

    from streaming.mining.values import CustomFunction


@dataclass(frozen=True, slots=True)
class Call:
    """How a function is read."""

    style: Style | None
    """None: it names no key but hands the document on, parsed (``from_json``, ``parse_json``)."""
    document: int = 0
    takes_many: bool = False
    """Every argument after the document is a key; otherwise the next one only."""


@dataclass(frozen=True, slots=True)
class Path:
    """A key as a call names it."""

    members: tuple[str, ...]
    is_ended: bool = False
    """It went on into an array: whatever is taken out of the value lies within this key too."""


_PATH: Final = Call(Style.JSON_PATH)
_PARSE: Final = Call(None)
_BUILT_IN: Final = {
    "get_json_object": _PATH,
    "variant_get": _PATH,
    "try_variant_get": _PATH,
    "json_extract": _PATH,
    "json_extract_scalar": _PATH,
    "json_query": _PATH,
    "json_value": _PATH,
    "json_tuple": Call(Style.MEMBER, takes_many=True),
    "from_json": _PARSE,
    "parse_json": _PARSE,
    "try_parse_json": _PARSE,
    "json_parse": _PARSE,
}
_MODE: Final = re.compile(r"\s*(?:lax|strict)\s+(?=\$)", re.IGNORECASE)
_QUOTED: Final = re.compile(r"\['(?:[^'\\]|\\.)*'\]|\[\"(?:[^\"\\]|\\.)*\"\]")
_ENDS: Final = re.compile(r"\[\s*[\d*:]|\.\*")


def calls_of(custom: Iterable[CustomFunction]) -> dict[str, Call]:
    """Return every function by its lower-case name without database; a user's function replaces a built-in one of its name."""
    own = {
        each.name.lower().rpartition(".")[2]: Call(each.style, each.document_argument, takes_many=True)
        for each in custom
    }
    return _BUILT_IN | own


def read_path(text: str, style: Style) -> Path | Unresolved:
    """Return the key that an argument names, or why it names none."""
    if "${" in text:
        return Unresolved.VARIABLE
    if style is Style.MEMBER:
        return Path((text,)) if text else Unresolved.BAD_PATH
    if style is Style.JSON_PATH:
        text = _MODE.sub("", text).strip()
        if text == "$":
            return Unresolved.WHOLE
    try:
        key = KeyPath.of_json_path(text) if style is Style.JSON_PATH else KeyPath.of_dotted(text)
    except BadInput:
        return Unresolved.BAD_PATH
    return Path(key.members, is_ended=_is_ended(text))


def _is_ended(text: str) -> bool:
    if "[" not in text and "*" not in text:
        return False
    return _ENDS.search(_QUOTED.sub("", text)) is not None
