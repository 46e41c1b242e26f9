"""The compatibility view: former column names on the current table.

When a key collapses into its parent, its column gets no more values, and its slot may later hold another key,
so queries with the old column name would find less and less. The view has all columns of the table, and maps
every old name to the column that has the values now::

    SELECT ..., `foo/bar`,
      coalesce(`foo/bar/baz1`, get_json_object(`foo/bar`, '$.baz1')) AS `foo/bar/baz1`, ...
    FROM `db`.`events_flat`

As long as the old column exists, older hours have their values there; when its slot holds another key, only
the second half of the expression remains. If the two types differ, the values are combined as text.

The view is written through metastore calls, in SQL that both Hive and Spark can read. It does not follow the
table on its own: ``refresh`` rewrites it after a change of the table if necessary, and
``tideline.schema_version`` records the table's version. The view's parameters store the meaning of the old
names, one parameter for each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from handlers.structs.objects import FieldSchema, SerDeInfo, StorageDescriptor, Table
from state.columns.names import check_name, fold_case
from state.columns.paths import KeyPath
from state.columns.slots import Layout, SlotState
from state.errors import BadInput, FlatTableAltered, InvalidRequest, LimitExceeded, NotFound
from streaming.table.catalog import Catalog
from streaming.table.flat_table import TableState
from streaming.table.parameters import KEY_CHARS_MAX, VERSION, select_own


OLD_NAME: Final = "tideline.old."
"""Prefix of an old name's parameter; its value is ``OldName.text``."""
OLD_NAMES_MAX: Final = 1_500
_VIEW: Final = "VIRTUAL_VIEW"
_INPUT: Final = "org.apache.hadoop.mapred.TextInputFormat"
_OUTPUT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


class CompatibilityView:
    """The view ``name`` of the flat table ``table``, both in ``database``."""

    def __init__(self, catalog: Catalog, database: str, table: str, name: str) -> None:
        self._catalog = catalog
        self._database = database
        self._table = table
        self._name = name

    def old_names(self) -> dict[str, OldName]:
        """Return the stored view's mapping of old names; empty if there is no view. Raises InvalidRequest if
        another table has its name.
        """
        stored = self._stored()
        if stored is None:
            return {}
        parameters = stored.parameters or {}
        return {
            key.removeprefix(OLD_NAME): OldName.parse(text)
            for key, text in parameters.items()
            if key.startswith(OLD_NAME)
        }

    def refresh(self, state: TableState) -> bool:
        """Update the view for ``state``, with its stored old names and those that follow from ``state``.

        Returns whether it changed.
        """
        return self.write(state, {**self.old_names(), **find_collapsed_names(state.layout)})

    def write(self, state: TableState, old_names: Mapping[str, OldName]) -> bool:
        """Write the view for ``state`` with ``old_names`` instead of its stored ones.

        Returns whether it changed. Omits old names that are columns again, and those whose column no longer
        exists.
        """
        usable_names = select_usable_names(state.layout, old_names)
        new_view = self._view(state, usable_names)
        stored = self._stored()
        if stored is None:
            self._catalog.create_table(new_view)
            return True
        before = select_own(stored.parameters)
        same = {**before, VERSION: str(state.version)} == new_view.parameters
        if same and stored.viewExpandedText == new_view.viewExpandedText:
            return False
        new_view.owner, new_view.createTime = stored.owner, stored.createTime
        self._catalog.replace_table(new_view, key=VERSION, expected=before[VERSION])
        return True

    def _stored(self) -> Table | None:
        try:
            view = self._catalog.get_table(self._database, self._name)
        except NotFound:
            return None
        if view.tableType != _VIEW or VERSION not in (view.parameters or {}):
            raise InvalidRequest("another table has the view's name", table=f"{self._database}.{self._name}")
        return view

    def _view(self, state: TableState, old_names: Mapping[str, OldName]) -> Table:
        query = build_query(self._database, self._table, state, old_names)
        parameters = {OLD_NAME + name: where.text for name, where in old_names.items()}
        if any(len(key) > KEY_CHARS_MAX for key in parameters) or len(parameters) > OLD_NAMES_MAX:
            raise LimitExceeded(
                "the view has too many old names, or a name that is too long", names=len(parameters), hint=""
            )
        columns = [FieldSchema(name=each.name, type=each.type) for each in build_columns(state, old_names)]
        return Table(
            dbName=self._database,
            tableName=self._name,
            sd=_storage(columns),
            partitionKeys=[],
            parameters={**parameters, VERSION: str(state.version)},
            viewOriginalText=query,
            viewExpandedText=query,
            tableType=_VIEW,
        )


def _storage(columns: list[FieldSchema]) -> StorageDescriptor:
    return StorageDescriptor(
        cols=columns,
        inputFormat=_INPUT,
        outputFormat=_OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


_MEMBER: Final = re.compile(r"[A-Za-z0-9_\-: ]+")
"""Hive does not support quoted members and cuts a member at the first other character
(UDFJson.patternKey)."""
_TEXT: Final = "string"


@dataclass(frozen=True, slots=True)
class OldName:
    """The current column that has the values of a former column."""

    column: str
    path: KeyPath | None = None
    """The path of the value within the column's JSON text; None if the column itself holds the value."""

    def __post_init__(self) -> None:
        if self.path is not None and not all(map(_MEMBER.fullmatch, self.path.members)):
            raise BadInput("Hive's get_json_object cannot read this path", key=self.path.text)

    @classmethod
    def parse(cls, text: str) -> OldName:
        """Return the meaning of an old name from its parameter. Raises FlatTableAltered if it is invalid."""
        try:
            form: Any = json.loads(text)
            path = form.get("p")
            return cls(str(form["c"]), None if path is None else KeyPath.of_json_path(path))
        except (ValueError, KeyError, AttributeError, TypeError, BadInput) as error:
            raise FlatTableAltered("invalid old name in a compatibility view", value=text[:200]) from error

    @property
    def text(self) -> str:
        """The value of the parameter: JSON, ``{"c": column, "p": path inside it or absent}``."""
        path = {} if self.path is None else {"p": self.path.text}
        return json.dumps({"c": self.column, **path})


def locate_collapsed(child: KeyPath, parent: KeyPath, column: str) -> OldName:
    """Return where the values of ``child`` are after its collapse into ``parent``, whose column is
    ``column``.

    Raises BadInput if Hive cannot read the rest of the path, so that the old name has to be dropped.
    """
    assert child.is_within(parent), (child, parent)
    assert child != parent, child
    return OldName(column, KeyPath(child.members[parent.depth :]))


def find_collapsed_names(layout: Layout) -> dict[str, OldName]:
    """Return the old names that follow from ``layout``: those of empty slots whose key is inside the key of a
    live slot.
    """
    live = layout.by_key
    names = {}
    for slot in layout.slots:
        parent = slot.key.parent if slot.key and slot.state is SlotState.EMPTY else None
        while parent is not None and parent not in live:
            parent = parent.parent
        if slot.key is not None and parent is not None:
            with suppress(BadInput):
                names[slot.name] = locate_collapsed(slot.key, parent, live[parent].name)
    return names


def build_query(database: str, table: str, state: TableState, old_names: Mapping[str, OldName]) -> str:
    """Return the view's SELECT. Raises BadInput for an old name that is not a valid column name."""
    shown = ", ".join(
        each.expression
        if each.expression == _quoted(each.name)
        else f"{each.expression} AS {_quoted(each.name)}"
        for each in build_columns(state, old_names)
    )
    # S608: every name is valid, and in quotes
    return f"SELECT {shown} FROM {_quoted(database)}.{_quoted(table)}"  # noqa: S608


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """A column of the view."""

    name: str
    type: str
    expression: str


def select_usable_names(layout: Layout, old_names: Mapping[str, OldName]) -> dict[str, OldName]:
    """Return the old names whose column still exists and that are not columns again."""
    columns = {slot.name for slot in layout.slots}
    in_use = {fold_case(slot.name) for slot in layout.slots if slot.state is not SlotState.EMPTY}
    return {
        name: where
        for name, where in sorted(old_names.items())
        if fold_case(name) not in in_use and where.column in columns - {name}
    }


def build_columns(state: TableState, old_names: Mapping[str, OldName]) -> list[ViewColumn]:
    """Return the view's columns: the table's columns, its partition columns, then old names that are no
    longer columns.

    Raises BadInput for an old name that is not a valid column name.
    """
    types = {slot.name: slot.type.hive for slot in state.layout.slots}
    moved = {name: _locate(name, where, types[where.column]) for name, where in old_names.items()}
    shown = []
    for slot in state.layout.slots:
        own = ViewColumn(slot.name, slot.type.hive, _quoted(slot.name))
        now = moved.pop(slot.name, None)
        shown.append(own if now is None else _combine(own, now))
    shown += [ViewColumn(column.name, column.type, _quoted(column.name)) for column in state.columns.columns]
    for name in moved:
        check_name(name, state.columns.names)
    return [*shown, *moved.values()]


def _locate(name: str, where: OldName, kind: str) -> ViewColumn:
    if where.path is None:
        return ViewColumn(name, kind, _quoted(where.column))
    path = "".join(f".{member}" for member in where.path.members)
    return ViewColumn(name, _TEXT, f"get_json_object({_quoted(where.column)}, '${path}')")


def _combine(one: ViewColumn, other: ViewColumn) -> ViewColumn:
    """Return a column with the values of two columns; each row has a value in at most one of them."""
    if one.type == other.type:
        return ViewColumn(one.name, one.type, f"coalesce({one.expression}, {other.expression})")
    return ViewColumn(one.name, _TEXT, f"coalesce({_as_text(one)}, {_as_text(other)})")


def _as_text(shown: ViewColumn) -> str:
    return shown.expression if shown.type == _TEXT else f"cast({shown.expression} AS string)"


def _quoted(name: str) -> str:
    assert "`" not in name, name
    return f"`{name}`"
