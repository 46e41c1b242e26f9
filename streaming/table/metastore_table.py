"""The flat table on any metastore that speaks Hive's objects."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from handlers.structs.objects import FieldSchema, Partition, Table
from state.columns.slot_codec import encode_parameters, replace_parameters
from state.errors import AmbiguousCall, Conflict, Inconsistent, InvalidRequest, NotFound
from streaming.table.flat_table import build_columns, build_storage, parse_partition, parse_table, relocate
from streaming.table.hours import parse_version, version_directory
from streaming.table.layout_changes import check_successor
from streaming.table.parameters import (
    LAYOUT_VERSION,
    PATTERNS,
    VERSION,
    check_parameters,
    merge_parameters,
    select_own,
)


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handlers.files.paths import Location
    from state.columns.slots import Layout
    from streaming.table.catalog import Catalog
    from streaming.table.flat_table import HourPartition, TableState
    from streaming.table.hours import HourColumns
    from streaming.table.storage import Storage


_FIXED: Final = {
    "EXTERNAL": "TRUE",
    "external.table.purge": "false",
    "discover.partitions": "false",
}
"""Nobody but Tideline adds partitions for directories that it finds, or deletes files with a partition."""


class MetastoreTable:
    """A ``FlatTable`` on a ``Catalog``; ``storage`` is where its hours lie.

    Directories are made here before the metastore hears of them: it makes those that are missing itself, as its own user, and
    who writes the files could then not write them.
    """

    def __init__(self, catalog: Catalog, database: str, name: str, storage: Storage) -> None:
        self.database = database
        self.name = name
        self._catalog = catalog
        self._storage = storage

    @property
    def title(self) -> str:
        """``database.table``."""
        return f"{self.database}.{self.name}"

    def read(self) -> TableState:
        """Return the table as it stands."""
        return parse_table(self._catalog.get_table(self.database, self.name))

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create it with its version, which compare-and-set needs to be there from the beginning."""
        layout.check()
        check_parameters(parameters or {})
        table = Table(
            dbName=self.database,
            tableName=self.name,
            sd=build_storage(build_columns(layout, columns), location),
            partitionKeys=[FieldSchema(name=c.name, type=c.type) for c in columns.columns],
            parameters={
                **_FIXED,
                **(parameters or {}),
                **encode_parameters(layout),
                PATTERNS: columns.patterns_text,
            },
            tableType="EXTERNAL_TABLE",
        )
        self._storage.make(str(location))
        self._catalog.create_table(table)
        return self.read()

    def alter(
        self,
        old: TableState,
        layout: Layout | None = None,
        *,
        parameters: Mapping[str, str | None] | None = None,
        proven: Collection[int] = (),
    ) -> TableState:
        """Read, change and store it, if nobody has changed it since ``old``."""
        changes = dict(parameters or {})
        check_parameters(changes)
        new = layout or replace(old.layout, version=old.version + 1)
        check_successor(old.layout, new, proven)
        stored = self._catalog.get_table(self.database, self.name)
        if parse_table(stored).version != old.version:
            raise Conflict("the table has another version", table=self.title, expected=old.version)
        stored.sd.cols = build_columns(new, old.columns)
        stored.parameters = merge_parameters(replace_parameters(stored.parameters or {}, new), changes)
        self._store(stored, old.version)
        return parse_table(stored)

    def hours(self) -> Sequence[int]:
        """Return the hours by the names of partitions."""
        return self._hours(self.read().columns)

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return partitions, in order."""
        state = self.read()
        if hours is None:
            hours = self._hours(state.columns)
        return self._found(state, hours, with_columns=with_columns)

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Add the hour where it is missing, and return it."""
        check_parameters(parameters or {})
        state, stored = self._both()
        if found := self._found(state, [hour]):
            return found[0]
        place = version_directory(state.columns.directory(state.location, hour), version)
        self._storage.make(str(place))
        self._catalog.add_partition(
            Partition(
                dbName=self.database,
                tableName=self.name,
                values=list(state.columns.values(hour)),
                sd=relocate(stored.sd, place),
                parameters={LAYOUT_VERSION: str(state.version), **(parameters or {})},
            )
        )
        return self._found(state, [hour])[0]

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Point the hour to ``location``."""
        check_parameters(parameters)
        state, stored = self._both()
        self._check_place(state, hour, location)
        partition = self._partition(state, hour)
        partition.sd = relocate(stored.sd, location)
        partition.parameters = merge_parameters(
            partition.parameters or {}, {LAYOUT_VERSION: str(state.version), **parameters}
        )
        self._catalog.delete_column_statistics(partition, state.columns.partition_name(hour))
        self._catalog.replace_partition(partition)
        return parse_partition(state, partition)

    def set_hour_parameters(self, hour: int, parameters: Mapping[str, str | None]) -> HourPartition:
        """Change parameters of an hour."""
        check_parameters(parameters)
        state = self.read()
        partition = self._partition(state, hour)
        partition.parameters = merge_parameters(partition.parameters or {}, parameters)
        self._catalog.replace_partition(partition)
        return parse_partition(state, partition)

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop the partitions of ``hours``."""
        columns = self.read().columns
        there = set(self._catalog.partition_names(self.database, self.name))
        names = [name for hour in hours if (name := columns.partition_name(hour)) in there]
        self._catalog.drop_partitions(self.database, self.name, names)

    def _store(self, table: Table, expected: int) -> None:
        """Replace the table; where the answer got lost, look whether it was done."""
        try:
            self._catalog.replace_table(table, key=VERSION, expected=str(expected))
        except AmbiguousCall:
            found = self._catalog.get_table(self.database, self.name)
            if (found.sd.cols, select_own(found.parameters)) != (table.sd.cols, select_own(table.parameters)):
                raise

    def _hours(self, columns: HourColumns) -> list[int]:
        names = self._catalog.partition_names(self.database, self.name)
        return sorted(columns.hour_of_name(name) for name in names)

    def _found(
        self, state: TableState, hours: Sequence[int], *, with_columns: bool = False
    ) -> list[HourPartition]:
        names = [state.columns.partition_name(hour) for hour in sorted(set(hours))]
        found = self._catalog.get_partitions(self.database, self.name, names, with_columns=with_columns)
        listed = sorted((parse_partition(state, each) for each in found), key=lambda each: each.hour)
        _check_apart(listed)
        return listed

    def _both(self) -> tuple[TableState, Table]:
        stored = self._catalog.get_table(self.database, self.name)
        return parse_table(stored), stored

    def _partition(self, state: TableState, hour: int) -> Partition:
        name = state.columns.partition_name(hour)
        found = self._catalog.get_partitions(self.database, self.name, [name])
        if not found:
            raise NotFound("the flat table has no such hour", table=self.title, partition=name)
        return found[0]

    def _check_place(self, state: TableState, hour: int, place: Location) -> None:
        own = state.columns.directory(state.location, hour)
        if place.parent != own or parse_version(place) is None:
            raise InvalidRequest(
                "an hour lies in a version of its own directory", location=str(place), directory=str(own)
            )
        entries = self._storage.list(str(place))
        files = [entry for entry in entries if not entry.is_directory and not _is_hidden(entry.name)]
        deeper = [entry.name for entry in entries if entry.is_directory and not _is_hidden(entry.name)]
        if not files or deeper:
            raise InvalidRequest(
                "an hour's directory holds its files directly",
                location=str(place),
                files=len(files),
                directories=deeper[:8],
            )


def _check_apart(partitions: Sequence[HourPartition]) -> None:
    places: dict[Location, HourPartition] = {}
    for each in partitions:
        other = places.setdefault(each.location, each)
        if other is not each:
            raise Inconsistent(
                "two partitions of a flat table have one location",
                location=str(each.location),
                partitions=[list(other.values), list(each.values)],
                hint="Hive reads such a directory once and loses rows: drop the partition that was added by hand.",
            )


def _is_hidden(name: str) -> bool:
    """Whether readers pass over the name."""
    return name.startswith(("_", "."))
