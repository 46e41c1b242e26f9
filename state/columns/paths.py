"""Keys: paths into a JSON document, as queries write them. They name the columns of a flat table.

A query writes ``$.action.name``, ``$['action']['name']``, ``action.name`` or ``$.items[0].id``. Each of these
names a chain of object members. Nothing behind the first array subscript or wildcard can be a column, so a
path ends there and the column holds the array as JSON text (json-splitting.md §6). Two texts for the same
chain are the same key.

Member names are case-sensitive: ``fooBar`` and ``foobar`` are different keys, as in JSON.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state.errors import BadInput


DEPTH_MAX: Final = 32
"""Maximum number of members of a key. Spark's JSON reader follows about a thousand; queries use about
five."""
CHARS_MAX: Final = 1024
_STEP: Final = re.compile(
    r"\.(?P<plain>[^.\[]+)|\['(?P<quoted>(?:[^'\\]|\\.)+)'\]|\[\"(?P<double>(?:[^\"\\]|\\.)+)\"\]"
)
_SUBSCRIPT: Final = re.compile(r"\[(?:\d+|\*)\]|\.\*|\[\s*\d*\s*:")
_ESCAPED: Final = re.compile(r"\\(.)")


@dataclass(frozen=True, slots=True, order=True)
class KeyPath:
    """A key: the names of the members from the top of the document to the value."""

    members: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.members or not all(self.members):
            raise BadInput("a key must name at least one member", members=list(self.members)[:8])
        if len(self.members) > DEPTH_MAX or sum(map(len, self.members)) > CHARS_MAX:
            raise BadInput(
                "a key is too long", depth=len(self.members), limit_depth=DEPTH_MAX, limit_chars=CHARS_MAX
            )

    @classmethod
    def of_json_path(cls, text: str) -> KeyPath:
        """Read ``$.a.b``, ``$['a'].b`` or ``$.a[0].b`` (which is ``$.a``); raise BadInput if it names no
        member.
        """
        if not text.startswith("$"):
            raise BadInput("a JSON path must begin with $", path=text[:200])
        return cls(_parse_members(text, 1)[0])

    @classmethod
    def of_dotted(cls, text: str) -> KeyPath:
        """Read ``a.b[0].c``, the form of custom functions (here ``a``, ``b``); raise BadInput if it names no
        member.
        """
        return cls(_parse_members("." + text, 0)[0])

    @property
    def text(self) -> str:
        """The canonical text of this key, a JSON path: ``$.a.b``, or ``$['a.b']`` if a name needs quotes."""
        return "$" + "".join(map(_format_step, self.members))

    @property
    def depth(self) -> int:
        """The number of members."""
        return len(self.members)

    @property
    def parent(self) -> KeyPath | None:
        """The key of the object that holds this member; None at the top level."""
        return KeyPath(self.members[:-1]) if len(self.members) > 1 else None

    def is_within(self, other: KeyPath) -> bool:
        """Whether this key equals ``other`` or lies below it."""
        return self.members[: other.depth] == other.members

    def __str__(self) -> str:
        return self.text


def parse_column_key(text: str) -> KeyPath:
    """Read ``$.a.b`` or ``a.b`` as the key of a column.

    Raises BadInput for a path with an array subscript or a wildcard: no column can hold only these parts of a
    value. Name the column of the whole value instead.
    """
    path = text if text.startswith("$") else f"$.{text}"
    members, end = _parse_members(path, 1)
    if end < len(path):
        key = KeyPath(members) if members else None
        raise BadInput(
            "a column cannot contain a part selected by an array subscript or a wildcard",
            path=text[:200],
            part=path[end:][:40],
            hint="" if key is None else f"Use {key}: the column then holds its whole value as JSON text.",
        )
    return KeyPath(members)


def _parse_members(text: str, at: int) -> tuple[tuple[str, ...], int]:
    """Return the members up to the first array subscript or wildcard, and the position at which it ends."""
    members = []
    while at < len(text):
        step = _STEP.match(text, at)
        plain, quoted, double = step.groups() if step else (None, None, None)
        if step is None or (plain and plain[0] == "*"):
            if _SUBSCRIPT.match(text, at):
                break
            raise BadInput("a JSON path cannot be read", path=text[:200], position=at)
        members.append(plain or _ESCAPED.sub(r"\1", quoted or double or ""))
        at = step.end()
    return tuple(members), at


def _format_step(name: str) -> str:
    if _is_plain(name):
        return "." + name
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"['{escaped}']"


def _is_plain(name: str) -> bool:
    return "." not in name and "[" not in name and not name.startswith("*")
