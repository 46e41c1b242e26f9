"""Keys: paths into a JSON document, as people's queries write them and as the flat table's columns are named after them.

A query says ``$.action.name``, ``$['action']['name']``, ``action.name`` or ``$.items[0].id``. All of them name a chain of
object members; behind the first array subscript or wildcard nothing can be a column, so a path ends there and the column
holds the array as JSON text (reference: json-splitting.md §6). Two texts for one chain are one key.

The members are compared exactly: ``fooBar`` and ``foobar`` are two keys, as in JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state.errors import BadInput


DEPTH_MAX: Final = 32
"""Members of one key; Spark's own JSON reader follows about a thousand, people ask for five."""
CHARS_MAX: Final = 1024
_STEP: Final = re.compile(
    r"\.(?P<plain>[^.\[]+)|\['(?P<quoted>(?:[^'\\]|\\.)+)'\]|\[\"(?P<double>(?:[^\"\\]|\\.)+)\"\]"
)
_SUBSCRIPT: Final = re.compile(r"\[(?:\d+|\*)\]|\.\*|\[\s*\d*\s*:")
_SKIPPED: Final = " \t\n\v\f\r"
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, order=True)
class KeyPath:
    """A key: the names of the members from the document's top to the value."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members or not all(self.members):
            raise BadInput("a key names no member", members=list(self.members)[:8])
        if len(self.members) > DEPTH_MAX or sum(map(len, self.members)) > CHARS_MAX:
            raise BadInput(
                "a key is too long", depth=len(self.members), limit_depth=DEPTH_MAX, limit_chars=CHARS_MAX
            )

    @classmethod
    def of_json_path(cls, text: str) -> KeyPath:
        """Read ``$.a.b``, ``$['a'].b`` or ``$.a[0].b`` (which is ``$.a``); raise BadInput where no member is named."""
        if not text.startswith("$"):
            raise BadInput("a JSON path begins with $", path=text[:200])
        return cls(_members(text, 1))

    @classmethod
    def of_dotted(cls, text: str) -> KeyPath:
        """Read ``a.b[0].c`` as custom functions write it (which is ``a``, ``b``); raise BadInput where no member is named."""
        return cls(_members("." + text, 0))

    @property
    def text(self) -> str:
        """The one text that stands for this key, a JSON path: ``$.a.b``, and ``$['a.b']`` where a name needs quotes."""
        return "$" + "".join(map(_step, self.members))

    @property
    def json_path(self) -> str | None:
        """The path as Spark 4's ``get_json_object`` reads it; None where it has no way to write it (it skips blanks before names)."""
        quoted = [name for name in self.members if not _is_plain(name)]
        if "*" in self.members or any("'" in name for name in quoted):
            return None
        if any(name[0] in _SKIPPED for name in self.members):
            return None
        return "$" + "".join(f".{name}" if _is_plain(name) else f"['{name}']" for name in self.members)

    @property
    def depth(self) -> int:
        """How many members it has."""
        return len(self.members)

    @property
    def parent(self) -> KeyPath | None:
        """The key of the object that holds it; None at the top."""
        return KeyPath(self.members[:-1]) if len(self.members) > 1 else None

    def is_within(self, other: KeyPath) -> bool:
        """Whether it is ``other`` or below it."""
        return self.members[: other.depth] == other.members

    def __str__(self) -> str:
        return self.text


def _members(text: str, at: int) -> tuple[str, ...]:
    members = []
    while at < len(text):
        if _SUBSCRIPT.match(text, at):
            break
        step = _STEP.match(text, at)
        if step is None:
            raise BadInput("a JSON path cannot be read", path=text[:200], position=at)
        plain = step["plain"]
        members.append(plain if plain is not None else _ESCAPED.sub(r"\1", step["quoted"] or step["double"]))
        at = step.end()
    return tuple(members)


def _step(name: str) -> str:
    if _is_plain(name):
        return "." + name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def _is_plain(name: str) -> bool:
    return "." not in name and "[" not in name and not name.startswith("*")
