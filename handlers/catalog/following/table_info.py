"""Followers' view of tables and partitions: names, columns, values and parameters, from events and listings
alike.

Table names are ``db.table``, in lower case as the metastore keeps them. A partition's spec maps its columns
(lower case) to values; drop events name partitions in the same way. ``Listing`` is a table, or a piece of it,
as read from the metastore, and ``TableLoad`` a follower's load from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final
from urllib.parse import unquote

from handlers.catalog.following.table_state import LoadProgress
from handlers.decoding.embedded_objects import PartitionOutline
from handlers.structs.objects import Partition, Table
from state.errors import MalformedEvent
from state.store import Pause, Store


PARSED_BETWEEN_PAUSES: Final = 200
"""Partition names parsed in about a millisecond."""


Spec = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """A table."""

    name: str
    columns: tuple[str, ...]
    """The partition columns in the table's order, lower case; empty for a table without partitions."""
    parameters: Mapping[str, str]
    whole: Table | None = None
    """The whole table if known; shared, read-only."""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The partition columns with their types, as the metastore writes them; empty if only their names
        are known.
        """
        declared = self.whole.partitionKeys if self.whole is not None else None
        return [(key.name.lower(), key.type or "") for key in declared or []]

    @property
    def db(self) -> str:
        """The name of its database."""
        return self.name.partition(".")[0]

    @property
    def table(self) -> str:
        """Its name within the database."""
        return self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """A partition."""

    spec: Spec
    parameters: Mapping[str, str]
    partition: Partition | None
    """The whole partition; shared, read-only. None if listed by its name alone, or if no follower stores
    partitions.
    """
    is_new: bool = False
    """Whether this comes from the event that added the partition."""


@dataclass(frozen=True, slots=True)
class CreatedTable:
    """A new, empty table; replaces everything known under its name."""

    table: TableInfo


@dataclass(frozen=True, slots=True)
class AlteredTable:
    """A followed table whose parameters or columns may have changed."""

    table: TableInfo


@dataclass(frozen=True, slots=True)
class AcceptedColumns:
    """A followed table with new data columns, which its partitions do not have."""

    table: TableInfo


@dataclass(frozen=True, slots=True)
class RenamedTable:
    """A table with a new name; everything known about ``old`` moves there."""

    old: str
    table: TableInfo


@dataclass(frozen=True, slots=True)
class ForgottenTable:
    """A table that no longer exists, or is out of scope."""

    name: str


@dataclass(frozen=True, slots=True)
class PutPartition:
    """A partition was added or replaced."""

    name: str
    """The table."""
    partition: PartitionInfo


@dataclass(frozen=True, slots=True)
class DroppedPartition:
    """A partition was dropped."""

    name: str
    """The table."""
    spec: Spec


@dataclass(frozen=True, slots=True)
class ChangedStatistics:
    """The parameters of a partition that changed when its statistics were computed."""

    name: str
    """The table."""
    spec: Spec
    parameters: Mapping[str, str]
    write_id: int | None


PartitionChange = PutPartition | DroppedPartition | ChangedStatistics
TableChange = CreatedTable | AlteredTable | AcceptedColumns | RenamedTable | ForgottenTable | PartitionChange
"""A change for a follower; it skips the kinds that do not concern it."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Some partitions of a table, and the load progress including them."""

    partitions: Sequence[PartitionInfo]
    progress: LoadProgress
    names: Sequence[str]
    """Those of all partitions."""
    is_first: bool
    is_last: bool

    @property
    def is_whole(self) -> bool:
        """Whether the piece contains all partitions."""
        return self.is_first and self.is_last


@dataclass(frozen=True, slots=True)
class Listing:
    """The result of reading a table or a piece of it."""

    as_of: int
    """The newest event id before the first reading of the table."""
    table: TableInfo
    piece: Piece | None
    """For followers that load in pieces."""
    whole: Sequence[str] | Mapping[str, Mapping[str, str]] | None
    """The names of all partitions, for followers that load a table at once;
    or their values as text, with the parameters that the followers read.

    Not objects for each partition: a million would take a gigabyte, and every garbage collection would stop
    all threads while it looks at them. None before the last piece, and if the table's own properties suffice.
    """
    until: int
    """The newest event id after the reading."""
    pause: Pause = lambda: None

    @property
    def is_last(self) -> bool:
        """Whether the load of the table is complete with this listing."""
        return self.piece is None or self.piece.is_last

    def partitions(self) -> Iterator[PartitionInfo]:
        """Yield all partitions; raise MalformedEvent for a name that does not fit the table's columns."""
        columns = self.table.columns
        for number, (one, _) in enumerate(groupby(self.whole or ())):
            if not number % PARSED_BETWEEN_PAUSES:
                self.pause()
            if isinstance(self.whole, Mapping):
                yield PartitionInfo(dict(zip(columns, json.loads(one), strict=True)), self.whole[one], None)
            else:
                yield parse_partition_name(columns, one)


class TableLoad:
    """One follower's share of a listing; by default the unchanged listing.
    A follower that computes or writes more overrides the steps.
    """

    def __init__(self, listing: Listing) -> None:
        """Load from ``listing``."""
        self.listing = listing

    def read(self) -> None:
        """Compute from the listing, without the store; in the thread of calls. Raises MalformedEvent."""

    # ARG002, PLR6301: nothing to write before the load begins
    def write(self, store: Store) -> bool:  # noqa: ARG002, PLR6301
        """Write a part, in a transaction of a few hundredths of a second; return whether there is more."""
        return False

    def abandon(self) -> None:
        """End the load; harmless after ``take_load``."""


def qualify(db: str, table: str) -> str:
    """Return the name of a table in the catalog: ``db.table`` in lower case."""
    return f"{db}.{table}".lower()


def describe_table(table: Table) -> TableInfo:
    """Return the followers' view of ``table``."""
    columns = tuple(key.name.lower() for key in table.partitionKeys or [])
    return TableInfo(qualify(table.dbName, table.tableName), columns, table.parameters or {}, table)


def describe_partition(
    columns: Sequence[str], partition: Partition, *, is_new: bool = False
) -> PartitionInfo:
    """Return the followers' view of ``partition``; raise MalformedEvent if it does not fit the table's
    columns.
    """
    return PartitionInfo(_make_spec(columns, partition), partition.parameters or {}, partition, is_new)


def outline_partition(columns: Sequence[str], outline: PartitionOutline, *, is_new: bool) -> PartitionInfo:
    """Return the part of the followers' view that needs no whole partitions; raise MalformedEvent as
    ``describe_partition``.
    """
    return PartitionInfo(_make_spec(columns, outline), outline.parameters or {}, None, is_new)


def _make_spec(columns: Sequence[str], partition: Partition | PartitionOutline) -> Spec:
    values = partition.values or []
    if len(values) != len(columns):
        raise MalformedEvent(
            "the columns of a partition differ from those of its table",
            columns=list(columns),
            values=values[:20],
        )
    return dict(zip(columns, values, strict=True))


def parse_partition_name(columns: Sequence[str], name: str) -> PartitionInfo:
    """Read a partition name such as ``dt=2015-01-01/country=de``;
    raise MalformedEvent if it does not fit the columns.

    Hive writes characters that a path must not contain as ``%`` and their code
    (``FileUtils.escapePathName``).
    """
    pairs = [part.partition("=") for part in name.split("/")]
    spec = {unquote(key, "latin-1").lower(): unquote(value, "latin-1") for key, _, value in pairs}
    if tuple(spec) != tuple(columns):
        raise MalformedEvent(
            "the columns of a partition differ from those of its table",
            columns=list(columns),
            name=name[:200],
        )
    return PartitionInfo(spec, {}, None)
