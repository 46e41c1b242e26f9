"""Where the values of a former column are now, as SQL that Hive and Spark share."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from state.columns.names import check_name, folded
from state.columns.paths import KeyPath
from state.columns.slots import SlotState
from state.errors import BadInput, TableAltered


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.slots import Layout
    from streaming.table.port import TableState


_MEMBER: Final = re.compile(r"[A-Za-z0-9_\-: ]+")
"""Hive knows no quoted members, and of others it takes the part in front of the first other character (UDFJson.patternKey)."""
_TEXT: Final = "string"


@dataclass(frozen=True, slots=True)
class OldName:
    """Where the values of a former column are now."""

    column: str
    path: KeyPath | None = None
    """The value's place in the column's JSON text; None where the column itself holds it."""

    def __post_init__(self) -> None:
        if self.path is not None and not all(map(_MEMBER.fullmatch, self.path.members)):
            raise BadInput("Hive's get_json_object cannot read this path", key=self.path.text)

    @classmethod
    def read(cls, text: str) -> OldName:
        """Read a parameter's value; TableAltered where it is none."""
        try:
            found: Any = json.loads(text)
            path = found.get("p")
            return cls(str(found["c"]), None if path is None else KeyPath.of_json_path(path))
        except (ValueError, KeyError, AttributeError, TypeError, BadInput) as error:
            raise TableAltered("a compatibility view's old name cannot be read", value=text[:200]) from error

    @property
    def text(self) -> str:
        """The parameter's value: JSON, ``{"c": column, "p": path inside it or absent}``."""
        path = {} if self.path is None else {"p": self.path.text}
        return json.dumps({"c": self.column, **path})


def collapsed(child: KeyPath, parent: KeyPath, column: str) -> OldName:
    """Return where ``child`` is found after it was collapsed into ``parent``, which lives in ``column``.

    Raises BadInput where Hive cannot read the rest of its path: that old name cannot be kept.
    """
    assert child.is_within(parent), (child, parent)
    assert child != parent, child
    return OldName(column, KeyPath(child.members[parent.depth :]))


def collapsed_names(layout: Layout) -> dict[str, OldName]:
    """Return the old names that ``layout`` itself tells of: empty slots whose key lies within a live slot's."""
    live = layout.by_key
    found = {}
    for slot in layout.slots:
        parent = slot.key.parent if slot.key and slot.state is SlotState.EMPTY else None
        while parent is not None and parent not in live:
            parent = parent.parent
        if slot.key is not None and parent is not None:
            with suppress(BadInput):
                found[slot.name] = collapsed(slot.key, parent, live[parent].name)
    return found


def view_query(database: str, table: str, state: TableState, old_names: Mapping[str, OldName]) -> str:
    """Return the view's SELECT; BadInput for an old name that no column may have."""
    shown = ", ".join(
        each.expression
        if each.expression == _quoted(each.name)
        else f"{each.expression} AS {_quoted(each.name)}"
        for each in shown_columns(state, old_names)
    )
    return f"SELECT {shown} FROM {_quoted(database)}.{_quoted(table)}"  # noqa: S608 - every name was checked and is quoted


@dataclass(frozen=True, slots=True)
class Shown:
    """A column of the view."""

    name: str
    type: str
    expression: str


def kept_names(layout: Layout, old_names: Mapping[str, OldName]) -> dict[str, OldName]:
    """Return those of ``old_names`` that can be shown: their column is there, and the name holds no key again."""
    columns = {slot.name for slot in layout.slots}
    in_use = {folded(slot.name) for slot in layout.slots if slot.state is not SlotState.EMPTY}
    return {
        name: where
        for name, where in sorted(old_names.items())
        if folded(name) not in in_use and where.column in columns - {name}
    }


def shown_columns(state: TableState, old_names: Mapping[str, OldName]) -> list[Shown]:
    """Return the view's columns: the table's in their order, its partition columns, then old names that are no columns any more.

    Raises BadInput for an old name that no column may have.
    """
    types = {slot.name: slot.type.hive for slot in state.layout.slots}
    moved = {name: _moved(name, where, types[where.column]) for name, where in old_names.items()}
    shown = []
    for slot in state.layout.slots:
        own = Shown(slot.name, slot.type.hive, _quoted(slot.name))
        now = moved.pop(slot.name, None)
        shown.append(own if now is None else _either(own, now))
    shown += [Shown(column.name, column.type, _quoted(column.name)) for column in state.columns.columns]
    for name in moved:
        check_name(name, state.columns.names)
    return [*shown, *moved.values()]


def _moved(name: str, where: OldName, kind: str) -> Shown:
    if where.path is None:
        return Shown(name, kind, _quoted(where.column))
    path = "".join(f".{member}" for member in where.path.members)
    return Shown(name, _TEXT, f"get_json_object({_quoted(where.column)}, '${path}')")


def _either(one: Shown, other: Shown) -> Shown:
    """Return a column with the values of both, which never have one each in the same row."""
    if one.type == other.type:
        return Shown(one.name, one.type, f"coalesce({one.expression}, {other.expression})")
    return Shown(one.name, _TEXT, f"coalesce({_as_text(one)}, {_as_text(other)})")


def _as_text(shown: Shown) -> str:
    return shown.expression if shown.type == _TEXT else f"cast({shown.expression} AS string)"


def _quoted(name: str) -> str:
    assert "`" not in name, name
    return f"`{name}`"
