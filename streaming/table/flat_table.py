"""The port of a flat table: its state, its hours and the operations on them, and their form in the metastore.

The table itself (columns, parameters) changes by compare-and-set on its version: of two concurrent writers,
one gets ``Conflict`` and has to read the table again. No Hive version has compare-and-set for partitions. A
process that changes partitions therefore holds the writer's lease (``lease``), which is a parameter of the
table and is acquired by compare-and-set.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from handlers.files.paths import Location, parse_location
from handlers.structs.objects import FieldSchema, Partition, SerDeInfo, StorageDescriptor, Table
from state.columns.slot_codec import encode_columns, parse_layout
from state.columns.slots import Layout
from streaming.table.hours import HourColumns
from streaming.table.parameters import PATTERNS, SEALED, check_columns, rename_former


@dataclass(frozen=True, slots=True)
class TableState:
    """The table at the time of reading."""

    layout: Layout
    parameters: Mapping[str, str]
    columns: HourColumns
    location: Location

    @property
    def version(self) -> int:
        """The schema version of the layout, which is also the value of ``tideline.schema_version``."""
        return self.layout.version


@dataclass(frozen=True, slots=True)
class HourPartition:
    """One hour of the table."""

    hour: int
    """Start of the hour in seconds since 1970."""
    values: tuple[str, ...]
    location: Location
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    """Names and types when the partition was added or last switched. Informational: ORC readers do not use
    them."""

    @property
    def is_sealed(self) -> bool:
        """Whether the hour is compacted and no row has arrived since then."""
        return self.parameters.get(SEALED) == "true"


class FlatTable(Protocol):
    """One flat table. Not thread-safe.

    All methods raise Transient if the metastore is unavailable, and NotFound if the table does not exist.
    """

    @property
    def title(self) -> str:
        """``database.table``."""

    def read(self) -> TableState:
        """Return the current state. Raises InvalidRequest if the table is not a flat table written by
        Tideline.
        """

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create the table as an external ORC table. Raises AlreadyExists, or NotFound if the database does
        not exist.
        """

    def alter(
        self,
        old: TableState,
        layout: Layout | None = None,
        *,
        parameters: Mapping[str, str | None] | None = None,
        proven: Collection[int] = (),
        narrowed: Collection[int] = (),
    ) -> TableState:
        """Change the table if it is still at ``old.version``; otherwise raise Conflict and change nothing.

        ``layout`` must have a higher version; None keeps the slots and raises the version by one.
        ``parameters`` are changes to parameters that begin with ``tideline.``; None removes one. ``proven``
        lists the slots whose retained files were inspected: only these may get another key (no file holds a
        value) or become STRING (the files were rewritten). ``narrowed`` lists the STRING slots that become
        numeric: all their values were found to fit, and the files hold marked text. Raises InvalidRequest for
        any other change after which readers would return wrong values.
        """

    def hours(self) -> Sequence[int]:
        """Return the hours that have a partition, in order. Cheap: reads only partition names."""

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return the existing partitions of ``hours`` (None: all) in order. Raises Inconsistent if two have
        the same location.

        The partitions may lack their columns unless ``with_columns`` is set, because 100 partitions with
        1,500 columns take a second.
        """

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Return the hour's partition. Adds a missing one with the directory ``v<version>`` and the table's
        current columns.

        The metastore counts the files that exist at that moment; ``set_hour_parameters`` later removes the
        count.
        """

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Point the hour to another directory, change parameters and remove statistics in one metastore call.

        If there are column statistics, an earlier call deletes them, because wrong statistics would mislead
        planners.

        The directory must be another version below the hour's own directory and must contain the files
        directly. Raises InvalidRequest otherwise, because Hive silently reads a missing or nested directory
        as 0 rows.
        """

    def set_hour_parameters(self, hour: int, parameters: Mapping[str, str | None]) -> HourPartition:
        """Change parameters of a partition (None removes one) and remove its statistics."""

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop partitions that exist; keep their files."""


_ORC: Final = "org.apache.hadoop.hive.ql.io.orc"


def parse_table(table: Table) -> TableState:
    """Return the state of a flat table from its metastore table. Raises FlatTableAltered or InvalidRequest if
    Tideline did not write it so.
    """
    parameters = rename_former(table.parameters or {})
    keys = [(key.name, key.type) for key in table.partitionKeys or []]
    columns = [(col.name, col.type, col.comment) for col in table.sd.cols or []]
    return TableState(
        layout=parse_layout(columns, parameters),
        parameters=parameters,
        columns=HourColumns.from_table(keys, parameters.get(PATTERNS, "")),
        location=parse_location(table.sd.location or ""),
    )


def parse_partition(state: TableState, partition: Partition) -> HourPartition:
    """Return the hour from its metastore partition. Raises BadPartitionValue if its values do not name an
    hour.
    """
    return HourPartition(
        hour=state.columns.hour(partition.values),
        values=tuple(partition.values),
        location=parse_location(partition.sd.location or ""),
        parameters=partition.parameters or {},
        columns=tuple((col.name, col.type) for col in partition.sd.cols or []),
    )


def build_columns(layout: Layout, columns: HourColumns) -> list[FieldSchema]:
    """Return the metastore columns of ``layout``. Raises BadInput or LimitExceeded for an invalid name or
    comment.
    """
    listed = encode_columns(layout)
    check_columns(((name, comment or "") for name, _, comment in listed), columns.names)
    return [FieldSchema(name=name, type=kind, comment=comment) for name, kind, comment in listed]


def build_storage(columns: list[FieldSchema], location: Location) -> StorageDescriptor:
    """Return the storage descriptor of ORC files at ``location``."""
    return StorageDescriptor(
        cols=columns,
        location=str(location),
        inputFormat=f"{_ORC}.OrcInputFormat",
        outputFormat=f"{_ORC}.OrcOutputFormat",
        compressed=False,
        numBuckets=-1,
        serdeInfo=SerDeInfo(serializationLib=f"{_ORC}.OrcSerde", parameters={"serialization.format": "1"}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )


def relocate(storage: StorageDescriptor, location: Location) -> StorageDescriptor:
    """Return a copy of ``storage`` with another location."""
    copy = storage.copy()
    copy.location = str(location)
    return copy
