"""What the rest of ``streaming`` asks of a flat table, wherever its metastore is.

Two kinds of change, because a metastore offers two kinds of safety. The table (columns, parameters) is changed by
compare-and-set on its version: of two writers one gets ``Conflict`` and has to look again. Partitions have no such thing in any
Hive, so whoever changes them holds the writer's lease (``lease``), a parameter of the table that is itself taken by compare-and-set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Protocol

from handlers.files.paths import parse
from handlers.structs.objects import FieldSchema, SerDeInfo, StorageDescriptor
from state.columns.slot_codec import encode_columns, parse_layout
from streaming.table.hours import HourColumns
from streaming.table.parameters import PATTERNS, SEALED, check_columns


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handlers.files.paths import Location
    from handlers.structs.objects import Partition, Table
    from state.columns.slots import Layout


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it was read."""

    layout: Layout
    parameters: Mapping[str, str]
    columns: HourColumns
    location: Location

    @property
    def version(self) -> int:
        """The schema version: the layout's, and the value of ``tideline.schema_version``."""
        return self.layout.version


@dataclass(frozen=True, slots=True)
class HourPartition:
    """A partition: one hour of the table."""

    hour: int
    """Seconds since 1970 at its start."""
    values: tuple[str, ...]
    location: Location
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    """Names and types when its files were last switched, or when it was added. Documentation: no reader of ORC looks at them."""

    @property
    def is_sealed(self) -> bool:
        """Whether the hour was compacted and no row has arrived since."""
        return self.parameters.get(SEALED) == "true"


class FlatTable(Protocol):
    """One flat table. Not thread-safe. All methods raise Transient where the metastore is away, NotFound without the table."""

    @property
    def title(self) -> str:
        """``database.table``."""

    def read(self) -> TableState:
        """Return the table as it stands; NotFound, or InvalidRequest where it is no flat table of Tideline's."""

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create the table, external, in ORC; AlreadyExists, or NotFound without its database."""

    def alter(
        self,
        old: TableState,
        layout: Layout | None = None,
        *,
        parameters: Mapping[str, str | None] | None = None,
        proven: Collection[int] = (),
    ) -> TableState:
        """Change the table if it still is at ``old.version``; raise Conflict where it is not, and change nothing.

        ``layout`` has a higher version; None keeps the slots under the next one. ``parameters`` are changes (None removes), all
        ``tideline.``. ``proven`` names the slots whose retained files were looked at: only those may get another key (no
        file holds a value) or turn into STRING (the files were rewritten); InvalidRequest for any other change that readers
        would see wrong values after.
        """

    def hours(self) -> Sequence[int]:
        """Return the hours that have a partition, in order. Cheap: only names travel."""

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return the partitions of ``hours`` (None: all) that exist, in order; Inconsistent where two share a location.

        Their columns may be missing unless asked for: 100 partitions of 1,500 columns take a second with them.
        """

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Return the hour's partition, added where it is missing: directory ``v<version>``, the table's columns of now.

        The metastore counts what lies there at that moment; ``set_hour_parameters`` after the files came removes the count.
        """

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Point the hour to another directory, change parameters and remove statistics, in one call of the metastore.

        (Statistics of columns, should somebody have computed them, go in a call before: without them nobody is misled.)

        The directory is another version below the hour's own and holds files directly, else InvalidRequest (Hive reads a
        missing directory, and one whose files lie deeper, as 0 rows without an error).
        """

    def set_hour_parameters(self, hour: int, parameters: Mapping[str, str | None]) -> HourPartition:
        """Change parameters of a partition (None removes), and remove its statistics; NotFound."""

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop partitions; their files stay. Those that do not exist are no error."""


_ORC: Final = "org.apache.hadoop.hive.ql.io.orc"


def parse_table(table: Table) -> TableState:
    """Read a table; TableAltered or InvalidRequest where it is no flat table as Tideline writes it."""
    parameters = table.parameters or {}
    keys = [(key.name, key.type) for key in table.partitionKeys or []]
    columns = [(col.name, col.type, col.comment) for col in table.sd.cols or []]
    return TableState(
        layout=parse_layout(columns, parameters),
        parameters=parameters,
        columns=HourColumns.of_table(keys, parameters.get(PATTERNS, "")),
        location=parse(table.sd.location or ""),
    )


def parse_partition(state: TableState, partition: Partition) -> HourPartition:
    """Read a partition of the table that is at ``state``; BadPartitionValue where it is no hour."""
    return HourPartition(
        hour=state.columns.hour(partition.values),
        values=tuple(partition.values),
        location=parse(partition.sd.location or ""),
        parameters=partition.parameters or {},
        columns=tuple((col.name, col.type) for col in partition.sd.cols or []),
    )


def build_columns(layout: Layout, columns: HourColumns) -> list[FieldSchema]:
    """Return the columns of ``layout``; BadInput or LimitExceeded for a name or comment that may not be."""
    listed = encode_columns(layout)
    check_columns(((name, comment or "") for name, _, comment in listed), columns.names)
    return [FieldSchema(name=name, type=kind, comment=comment) for name, kind, comment in listed]


def build_storage(columns: list[FieldSchema], location: Location) -> StorageDescriptor:
    """Return how and where the table's files lie."""
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
    """Return the same columns and format at another place."""
    copy = storage.copy()
    copy.location = str(location)
    return copy
