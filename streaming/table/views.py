"""The compatibility view: yesterday's column names on today's table.

A key that was collapsed into its parent gets no values any more: its column is empty from then on, and one day another key's.
Queries that name the old column would find less and less. The view has all columns of the table, and gives every old name the
values wherever they are::

    SELECT …, `foo/bar`, coalesce(`foo/bar/baz1`, get_json_object(`foo/bar`, '$.baz1')) AS `foo/bar/baz1`, …
    FROM `db`.`events_flat`

While the old column still stands, older hours have the values there; when its slot is another key's, only the second half is
left. Two types that differ meet as text.

It is written by the metastore's own calls in the words that Hive's and Spark's SQL share, so both read it. It does not widen by
itself: ``refresh`` after each change of the table writes it anew where it has to, and ``tideline.schema_version`` says since when it is so.
What the old names mean is kept in the view, one parameter for each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.structs import FieldSchema, SerDeInfo, StorageDescriptor, Table
from state.errors import InvalidRequest, LimitExceeded, NotFound
from streaming.table.oldnames import OldName, collapsed_names, kept_names, shown_columns, view_query
from streaming.table.parameters import KEY_CHARS_MAX, VERSION, owned


if TYPE_CHECKING:
    from collections.abc import Mapping

    from streaming.table.catalog import Catalog
    from streaming.table.port import TableState


OLD_NAME: Final = "tideline.old."
"""Begins the parameter of an old name; its value is ``OldName.text``."""
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
        """Return what the stored view maps; nothing where there is none. InvalidRequest where something else has its name."""
        stored = self._stored()
        if stored is None:
            return {}
        parameters = stored.parameters or {}
        return {
            key.removeprefix(OLD_NAME): OldName.read(text)
            for key, text in parameters.items()
            if key.startswith(OLD_NAME)
        }

    def refresh(self, state: TableState) -> bool:
        """Make the view show ``state`` with the old names that it has and those that ``state`` tells of; tell whether it changed."""
        return self.write(state, {**self.old_names(), **collapsed_names(state.layout)})

    def write(self, state: TableState, old_names: Mapping[str, OldName]) -> bool:
        """Make the view show ``state`` and ``old_names``, which replace those it had; tell whether anything changed.

        Old names that hold a key again are left out, and those whose column is gone.
        """
        kept = kept_names(state.layout, old_names)
        wanted = self._view(state, kept)
        stored = self._stored()
        if stored is None:
            self._catalog.create_table(wanted)
            return True
        before = owned(stored.parameters)
        same = {**before, VERSION: str(state.version)} == wanted.parameters
        if same and stored.viewExpandedText == wanted.viewExpandedText:
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
        columns = [FieldSchema(name=each.name, type=each.type) for each in shown_columns(state, old_names)]
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
