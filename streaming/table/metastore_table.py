"""The implementation of ``FlatTable`` on any metastore with Hive's objects.

It checks every change before the metastore sees it, stores the table by compare-and-set, and switches an hour
in one call.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from handlers.files.paths import Location
from handlers.structs.objects import FieldSchema, Partition, Table
from state.columns.slot_codec import encode_parameters, replace_parameters
from state.columns.slots import Layout, check_successor
from state.errors import AmbiguousCall, Conflict, Inconsistent, InvalidRequest, NotFound
from streaming.storage.port import Storage
from streaming.table.catalog import Catalog
from streaming.table.flat_table import (
    HourPartition,
    TableState,
    build_columns,
    build_storage,
    parse_partition,
    parse_table,
    relocate,
)
from streaming.table.hours import HourColumns, parse_version, version_directory
from streaming.table.parameters import (
    LAYOUT_VERSION,
    PATTERNS,
    VERSION,
    check_parameters,
    merge_parameters,
    select_own,
)


_FIXED: Final = {
    "EXTERNAL": "TRUE",
    "external.table.purge": "false",
    "discover.partitions": "false",
}
"""No other process adds partitions for directories that it finds, and dropping a partition deletes no
files."""


class MetastoreTable:
    """A ``FlatTable`` on a ``Catalog``; its hours are directories in ``storage``.

    Creates a directory before it sends the location to the metastore. Otherwise the metastore would create it
    as its own user, and the writer could not write into it.
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
        """Return the current state."""
        return parse_table(self._catalog.get_table(self.database, self.name))

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create the table with its version, which compare-and-set needs from the beginning."""
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
        narrowed: Collection[int] = (),
    ) -> TableState:
        """Change the table if it is still at ``old.version``."""
        changes = dict(parameters or {})
        check_parameters(changes)
        new = layout or replace(old.layout, version=old.version + 1)
        check_successor(old.layout, new, proven, narrowed)
        stored = self._catalog.get_table(self.database, self.name)
        if parse_table(stored).version != old.version:
            raise Conflict("the table changed in the meantime", table=self.title, expected=old.version)
        stored.sd.cols = build_columns(new, old.columns)
        stored.parameters = merge_parameters(replace_parameters(stored.parameters or {}, new), changes)
        self._store(stored, old.version, narrows=bool(narrowed))
        return parse_table(stored)

    def hours(self) -> Sequence[int]:
        """Return the hours that have a partition."""
        return self._list_hours(self.read().columns)

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return partitions in order."""
        state = self.read()
        if hours is None:
            hours = self._list_hours(state.columns)
        return self._read_partitions(state, hours, with_columns=with_columns)

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Add the hour if it is missing, and return its partition."""
        check_parameters(parameters or {})
        state, stored = self._read_both()
        if present := self._read_partitions(state, [hour]):
            return present[0]
        target = version_directory(state.columns.directory(state.location, hour), version)
        self._storage.make(str(target))
        self._catalog.add_partition(
            Partition(
                dbName=self.database,
                tableName=self.name,
                values=list(state.columns.values(hour)),
                sd=relocate(stored.sd, target),
                parameters={LAYOUT_VERSION: str(state.version), **(parameters or {})},
            )
        )
        return self._read_partitions(state, [hour])[0]

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Point the hour to ``location`` in one call."""
        check_parameters(parameters)
        state, stored = self._read_both()
        self._check_location(state, hour, location)
        partition = self._read_partition(state, hour)
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
        partition = self._read_partition(state, hour)
        partition.parameters = merge_parameters(partition.parameters or {}, parameters)
        self._catalog.replace_partition(partition)
        return parse_partition(state, partition)

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop the partitions of ``hours``."""
        columns = self.read().columns
        there = set(self._catalog.partition_names(self.database, self.name))
        names = [name for hour in hours if (name := columns.partition_name(hour)) in there]
        self._catalog.drop_partitions(self.database, self.name, names)

    def _store(self, table: Table, expected: int, *, narrows: bool) -> None:
        """Replace the table. If the answer is lost, read the table to find out whether the replacement
        succeeded.
        """
        try:
            self._catalog.replace_table(table, key=VERSION, expected=str(expected), narrows=narrows)
        except AmbiguousCall:
            stored = self._catalog.get_table(self.database, self.name)
            if (stored.sd.cols, select_own(stored.parameters)) != (
                table.sd.cols,
                select_own(table.parameters),
            ):
                raise

    def _list_hours(self, columns: HourColumns) -> list[int]:
        names = self._catalog.partition_names(self.database, self.name)
        return sorted(columns.parse_name(name) for name in names)

    def _read_partitions(
        self, state: TableState, hours: Sequence[int], *, with_columns: bool = False
    ) -> list[HourPartition]:
        names = [state.columns.partition_name(hour) for hour in sorted(set(hours))]
        partitions = self._catalog.get_partitions(self.database, self.name, names, with_columns=with_columns)
        listed = sorted((parse_partition(state, each) for each in partitions), key=lambda each: each.hour)
        _check_locations_differ(listed)
        return listed

    def _read_both(self) -> tuple[TableState, Table]:
        stored = self._catalog.get_table(self.database, self.name)
        return parse_table(stored), stored

    def _read_partition(self, state: TableState, hour: int) -> Partition:
        name = state.columns.partition_name(hour)
        partitions = self._catalog.get_partitions(self.database, self.name, [name])
        if not partitions:
            raise NotFound("the flat table has no partition of this hour", table=self.title, partition=name)
        return partitions[0]

    def _check_location(self, state: TableState, hour: int, location: Location) -> None:
        own = state.columns.directory(state.location, hour)
        if location.parent != own or parse_version(location) is None:
            raise InvalidRequest(
                "an hour's location must be a version directory below the hour's own directory",
                location=str(location),
                directory=str(own),
            )
        entries = self._storage.list(str(location))
        files = [entry for entry in entries if not entry.is_directory and not _is_hidden(entry.name)]
        deeper = [entry.name for entry in entries if entry.is_directory and not _is_hidden(entry.name)]
        if not files or deeper:
            raise InvalidRequest(
                "an hour's directory must contain its files directly",
                location=str(location),
                files=len(files),
                directories=deeper[:8],
            )


def _check_locations_differ(partitions: Sequence[HourPartition]) -> None:
    by_location: dict[Location, HourPartition] = {}
    for each in partitions:
        other = by_location.setdefault(each.location, each)
        if other is not each:
            raise Inconsistent(
                "two partitions of a flat table share a location",
                location=str(each.location),
                partitions=[list(other.values), list(each.values)],
                hint="Hive reads such a directory once and loses rows. Drop the partition that was added "
                "manually.",
            )


def _is_hidden(name: str) -> bool:
    """Whether readers skip the name."""
    return name.startswith(("_", "."))
