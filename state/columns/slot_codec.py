"""Slot codec: stores a layout in the metastore table itself,
in the comments of its columns and in table parameters.

The table thereby documents, for its users and for the next run, which key each column holds. A comment is
JSON of at most 256 ASCII characters, which no metastore database changes::

    {"k":"$.action.name","f":"2016041821","l":"2016042103","t":"smallint"}

``k`` is the key, ``f`` and ``l`` are the first and last hour (UTC) with a value, and ``t`` is the type. ``s``
is "empty" if the slot is not in use. If the key is too long for the comment, ``d`` holds its digest, and the
table parameter ``tideline.key.<slot>`` holds its text. A reused slot keeps its former name in
``tideline.former.<slot>``.

Reading is strict, because readers find values by these positions: any text that Tideline would not write
raises FlatTableAltered.
"""

from __future__ import annotations

import calendar
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from state.columns.names import check_name, digest_key
from state.columns.paths import KeyPath
from state.columns.slots import HOUR_S, RESCUED, Layout, Slot, SlotState
from state.columns.types import ColumnType
from state.errors import BadInput, FlatTableAltered


COMMENT_CHARS_MAX: Final = 256
VERSION_PARAMETER: Final = "tideline.schema_version"
KEY_PARAMETER: Final = "tideline.key."
FORMER_PARAMETER: Final = "tideline.former."
_RESCUED_COMMENT: Final = '{"s":"reserved"}'
_HOUR: Final = re.compile(r"[0-9]{10}")
_TYPES: Final = {each.name.lower(): each for each in ColumnType if each is not ColumnType.NULL}
_FIELDS: Final = frozenset("kdflts")


class Column(NamedTuple):
    """A column, as the metastore stores it."""

    name: str
    type: str
    comment: str | None


def encode_columns(layout: Layout) -> list[Column]:
    """Return the columns that represent ``layout``, without the partition keys."""
    rescued, *slots = layout.slots
    first = Column(rescued.name, rescued.type.hive, _RESCUED_COMMENT)
    return [first, *(Column(slot.name, slot.type.hive, encode_comment(slot)) for slot in slots)]


def encode_parameters(layout: Layout) -> dict[str, str]:
    """Return the table parameters that, with the columns, represent ``layout``."""
    parameters = {VERSION_PARAMETER: str(layout.version)}
    for slot in layout.slots:
        if slot.key is not None and not _is_short(slot):
            parameters[f"{KEY_PARAMETER}{slot.index}"] = json.dumps(slot.key.text)
        if slot.former_name is not None:
            parameters[f"{FORMER_PARAMETER}{slot.index}"] = json.dumps(slot.former_name)
    return parameters


def replace_parameters(existing: Mapping[str, str], layout: Layout) -> dict[str, str]:
    """Return ``existing`` with the parameters of ``layout`` in place of those of an earlier layout."""
    others = {
        name: value
        for name, value in existing.items()
        if not name.startswith((KEY_PARAMETER, FORMER_PARAMETER))
    }
    return others | encode_parameters(layout)


def encode_comment(slot: Slot) -> str:
    """Return the comment for the slot of a key."""
    assert slot.key is not None, slot
    if _is_short(slot):
        return _comment({"k": slot.key.text}, slot)
    return _comment({"d": digest_key(slot.key)}, slot)


def parse_layout(columns: Iterable[tuple[str, str, str | None]], parameters: Mapping[str, str]) -> Layout:
    """Read a layout from a table's columns (name, type, comment; no partition keys) and parameters.

    Raises FlatTableAltered if Tideline did not write them.
    """
    slots = tuple(_slot(index, Column(*each), parameters) for index, each in enumerate(columns))
    layout = Layout(_version(parameters), slots)
    try:
        layout.check()
    except AssertionError as broken:
        raise FlatTableAltered("the columns of a flat table are inconsistent", reason=str(broken)) from None
    return layout


def format_hour(hour: int) -> str:
    """Return ``2016041821`` for the hour that begins ``hour`` seconds after 1970 (UTC)."""
    return time.strftime("%Y%m%d%H", time.gmtime(hour))


def parse_hour(text: str) -> int:
    """Return the hour of ``2016041821``; raise BadInput for any other text."""
    try:
        parsed = time.strptime(text, "%Y%m%d%H") if _HOUR.fullmatch(text) else None
    except ValueError:
        parsed = None
    if parsed is None:
        raise BadInput("an hour must have the form yyyymmddhh", text=text[:40])
    return calendar.timegm(parsed)


def _is_short(slot: Slot) -> bool:
    assert slot.key is not None, slot
    return len(_comment({"k": slot.key.text}, slot, room_for_state=True)) <= COMMENT_CHARS_MAX


def _comment(key: dict[str, str], slot: Slot, *, room_for_state: bool = False) -> str:
    fields = dict(key)
    if slot.first_seen_hour is not None and slot.last_seen_hour is not None:
        fields |= {"f": format_hour(slot.first_seen_hour), "l": format_hour(slot.last_seen_hour)}
    elif room_for_state:
        fields |= {"f": "0" * 10, "l": "0" * 10}
    fields["t"] = "smallint" if room_for_state else slot.type.hive
    if slot.state is SlotState.EMPTY or room_for_state:
        fields["s"] = SlotState.EMPTY.value
    return json.dumps(fields, separators=(",", ":"))


def _slot(index: int, column: Column, parameters: Mapping[str, str]) -> Slot:
    column_type = _TYPES.get(column.type.lower())
    if column_type is None:
        raise _altered(column, "its type is not one of the eight column types")
    if index == 0:
        return Slot(0, column.name, None, column_type, state=SlotState.RESERVED)
    fields = _fields(column)
    key = _key(index, column, fields, parameters)
    first, last = _hours(column, fields)
    if fields.get("t") != column_type.hive:
        raise _altered(column, "its type differs from the one in its comment")
    if fields.get("s", SlotState.EMPTY.value) != SlotState.EMPTY.value:
        raise _altered(column, "its comment contains an unknown state")
    state = SlotState.EMPTY if "s" in fields else SlotState.LIVE
    former = _text_parameter(column, parameters, f"{FORMER_PARAMETER}{index}")
    return Slot(index, column.name, key, column_type, first, last, state, former)


def _fields(column: Column) -> dict[str, str]:
    fields: Any = None
    if column.name != RESCUED and column.comment and len(column.comment) <= COMMENT_CHARS_MAX:
        try:
            check_name(column.name)
            fields = json.loads(column.comment)
        except (ValueError, RecursionError, BadInput) as broken:
            raise _altered(column, str(broken)) from None
    if not isinstance(fields, dict) or not fields.keys() <= _FIELDS:
        raise _altered(column, "Tideline did not write its comment")
    if not all(isinstance(value, str) for value in fields.values()):
        raise _altered(column, "Tideline did not write its comment")
    return fields


def _key(index: int, column: Column, fields: dict[str, str], parameters: Mapping[str, str]) -> KeyPath:
    text = fields.get("k")
    if text is None:
        text = _text_parameter(column, parameters, f"{KEY_PARAMETER}{index}")
    try:
        key = KeyPath.of_json_path(text or "")
    except BadInput as broken:
        raise _altered(column, str(broken)) from None
    if key.text != text or ("k" not in fields and fields.get("d") != digest_key(key)):
        raise _altered(column, "its key differs from the one in its comment")
    return key


def _hours(column: Column, fields: dict[str, str]) -> tuple[int | None, int | None]:
    if "f" not in fields and "l" not in fields:
        return None, None
    try:
        first, last = parse_hour(fields.get("f", "")), parse_hour(fields.get("l", ""))
    except BadInput as broken:
        raise _altered(column, str(broken)) from None
    assert first % HOUR_S == 0, first
    return first, last


def _text_parameter(column: Column, parameters: Mapping[str, str], name: str) -> str | None:
    value = parameters.get(name)
    try:
        text = None if value is None else json.loads(value)
    except (ValueError, RecursionError):
        text = 0
    if text is not None and not isinstance(text, str):
        raise _altered(column, f"{name} must be a JSON string")
    return text


def _version(parameters: Mapping[str, str]) -> int:
    text = parameters.get(VERSION_PARAMETER, "")
    if not re.fullmatch(r"[1-9][0-9]{0,17}", text):
        raise FlatTableAltered(
            "the table has no valid schema version", parameter=VERSION_PARAMETER, value=text[:40]
        )
    return int(text)


def _altered(column: Column, reason: str) -> FlatTableAltered:
    return FlatTableAltered(
        "a column was changed by something other than Tideline", column=column.name[:200], reason=reason
    )
