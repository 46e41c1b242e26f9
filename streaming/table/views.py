"""The compatibility view: yesterday's column names on today's table.

A key that was collapsed into its parent is no column any more, and a slot may have been renamed; queries that name the old column
would break. The view has all columns of the table and, for every old name, the column or the part of it that has the value now::

    SELECT `foo/bar`, get_json_object(`foo/bar`, '$.baz1') AS `foo/bar/baz1`, … FROM `db`.`events_flat`

It is written by the metastore's own calls in the words that Hive's and Spark's SQL share, so both read it. A view is not
something that Spark or Hive widen by themselves: it is written anew after each change of the table, and says in
``tideline.schema_version`` which one it shows. What the old names mean is kept in the view, one parameter for each, so that the next
writing needs nothing else.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from handlers.structs import FieldSchema, SerDeInfo, StorageDescriptor, Table
from state.columns.names import check_name, folded
from state.columns.paths import KeyPath
from state.errors import BadInput, InvalidRequest, LimitExceeded, NotFound, TableAltered
from streaming.table.parameters import KEY_CHARS_MAX, VERSION, owned


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.slots import Layout
    from streaming.table.port import TableState
    from streaming.table.stored import Catalog


OLD_NAME: Final = "tideline.old."
"""Begins the parameter of an old name; its value is JSON, ``{"c": column, "p": path inside it or absent}``."""
OLD_NAMES_MAX: Final = 1_500
_MEMBER: Final = re.compile(r"[A-Za-z0-9_\-: ]+")
"""Hive knows no quoted members, and of others it takes the part in front of the first other character (UDFJson.patternKey)."""
_VIEW: Final = "VIRTUAL_VIEW"
_INPUT: Final = "org.apache.hadoop.mapred.TextInputFormat"
_OUTPUT: Final = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"


@dataclass(frozen=True, slots=True)
class OldName:
    """Where the values of a former column are now."""

    column: str
    path: KeyPath | None = None
    """The value's place in the column's JSON text; None where the column itself holds it."""

    def __post_init__(self) -> None:
        if self.path is not None and not all(map(_MEMBER.fullmatch, self.path.members)):
            raise BadInput("Hive's get_json_object cannot read this path", key=self.path.text)

    @property
    def text(self) -> str:
        """The parameter's value."""
        path = {} if self.path is None else {"p": self.path.text}
        return json.dumps({"c": self.column, **path})


def collapsed(child: KeyPath, parent: KeyPath, column: str) -> OldName:
    """Return where ``child`` is found after it was collapsed into ``parent``, which lives in ``column``.

    Raises BadInput where Hive cannot read the rest of its path: that old name cannot be kept.
    """
    assert child.is_within(parent), (child, parent)
    assert child != parent, child
    return OldName(column, KeyPath(child.members[parent.depth :]))


def view_query(database: str, table: str, state: TableState, old_names: Mapping[str, OldName]) -> str:
    """Return the view's SELECT; raise BadInput or InvalidRequest for an old name that cannot be shown."""
    columns = [slot.name for slot in state.layout.slots]
    taken = set(map(folded, (*columns, *state.columns.names)))
    shown = [*map(_quoted, columns), *map(_quoted, state.columns.names)]
    for name, where in old_names.items():
        check_name(name)
        if folded(name) in taken or where.column not in columns:
            raise InvalidRequest("an old name cannot be shown", name=name, column=where.column)
        shown.append(f"{_expression(where)} AS {_quoted(name)}")
    return f"SELECT {', '.join(shown)} FROM {_quoted(database)}.{_quoted(table)}"  # noqa: S608 - every name was checked and is quoted


class CompatibilityView:
    """The view ``name`` of the flat table ``table``, both in ``database``."""

    def __init__(self, catalog: Catalog, database: str, table: str, name: str) -> None:
        self._catalog = catalog
        self._database = database
        self._table = table
        self._name = name

    def old_names(self) -> dict[str, OldName]:
        """Return what the stored view maps; nothing where there is none. InvalidRequest where something else has its name."""
        stored = self._stored()
        if stored is None:
            return {}
        parameters = stored.parameters or {}
        return {
            key.removeprefix(OLD_NAME): _read(text)
            for key, text in parameters.items()
            if key.startswith(OLD_NAME)
        }

    def write(self, state: TableState, old_names: Mapping[str, OldName]) -> bool:
        """Make the view show ``state`` and ``old_names``, which replace those it had; tell whether anything changed.

        Old names that the table has again, as columns of their own, are left out, and those whose column is gone.
        """
        kept = _kept(state.layout, old_names)
        wanted = self._view(state, kept)
        stored = self._stored()
        if stored is None:
            self._catalog.create_table(wanted)
            return True
        before = owned(stored.parameters)
        if stored.viewExpandedText == wanted.viewExpandedText and before == wanted.parameters:
            return False
        wanted.owner, wanted.createTime = stored.owner, stored.createTime
        self._catalog.replace_table(wanted, key=VERSION, expected=before[VERSION])
        return True

    def _stored(self) -> Table | None:
        try:
            found = self._catalog.get_table(self._database, self._name)
        except NotFound:
            return None
        if found.tableType != _VIEW or VERSION not in (found.parameters or {}):
            raise InvalidRequest("something else has the view's name", table=f"{self._database}.{self._name}")
        return found

    def _view(self, state: TableState, old_names: Mapping[str, OldName]) -> Table:
        query = view_query(self._database, self._table, state, old_names)
        parameters = {OLD_NAME + name: where.text for name, where in old_names.items()}
        if any(len(key) > KEY_CHARS_MAX for key in parameters) or len(parameters) > OLD_NAMES_MAX:
            raise LimitExceeded("a view has too many or too long old names", names=len(parameters), hint="")
        return Table(
            dbName=self._database,
            tableName=self._name,
            sd=_storage(_columns(state, old_names)),
            partitionKeys=[],
            parameters={**parameters, VERSION: str(state.version)},
            viewOriginalText=query,
            viewExpandedText=query,
            tableType=_VIEW,
        )


def _kept(layout: Layout, old_names: Mapping[str, OldName]) -> dict[str, OldName]:
    columns = {slot.name for slot in layout.slots}
    again = set(map(folded, columns))
    return {
        name: where
        for name, where in sorted(old_names.items())
        if folded(name) not in again and where.column in columns
    }


def _expression(where: OldName) -> str:
    if where.path is None:
        return _quoted(where.column)
    path = "".join(f".{member}" for member in where.path.members)
    return f"get_json_object({_quoted(where.column)}, '${path}')"


def _columns(state: TableState, old_names: Mapping[str, OldName]) -> list[FieldSchema]:
    types = {slot.name: slot.type.hive for slot in state.layout.slots}
    columns = [*types.items(), *((column.name, column.type) for column in state.columns.columns)]
    columns += [
        (name, types[where.column] if where.path is None else "string") for name, where in old_names.items()
    ]
    return [FieldSchema(name=name, type=kind) for name, kind in columns]


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


def _quoted(name: str) -> str:
    assert "`" not in name, name
    return f"`{name}`"


def _read(text: str) -> OldName:
    try:
        found: Any = json.loads(text)
        path = found.get("p")
        return OldName(str(found["c"]), None if path is None else KeyPath.of_json_path(path))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise TableAltered("a compatibility view's old name cannot be read", value=text[:200]) from error
