"""Tables and partitions as followers see them: names, columns, values and parameters, whatever told of them.

Table names are ``db.table``, in lower case as the metastore keeps them. A partition's spec maps its columns (lower case) to
values, which is how drop events name partitions too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote

from state.errors import MalformedEvent


if TYPE_CHECKING:
    from handlers.structs import Partition, Table


Spec = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TableSeen:
    """What a follower may know of a table."""

    name: str
    columns: tuple[str, ...]
    """The partition columns in the table's order, lower case; empty for a table without partitions."""
    parameters: Mapping[str, str]
    whole: Table | None = None
    """All that is known of it, shared, not to be changed."""

    @property
    def keys(self) -> list[tuple[str, str]]:
        """The partition columns with their types, as the metastore writes them; empty where only names are known."""
        declared = self.whole.partitionKeys if self.whole is not None else None
        return [(key.name.lower(), key.type or "") for key in declared or []]

    @property
    def db(self) -> str:
        """Its database."""
        return self.name.partition(".")[0]

    @property
    def table(self) -> str:
        """Its name within the database."""
        return self.name.partition(".")[2]


@dataclass(frozen=True, slots=True)
class PartitionSeen:
    """One partition."""

    spec: Spec
    parameters: Mapping[str, str]
    partition: Partition | None
    """All that is known of it, shared, not to be changed; None where it was listed by its name alone."""
    is_new: bool = False
    """Whether the event that added it tells of it."""


def table_name(db: str, table: str) -> str:
    """Return the name under which a table is known here."""
    return f"{db}.{table}".lower()


def table_seen(table: Table) -> TableSeen:
    """Return what followers see of ``table``."""
    columns = tuple(key.name.lower() for key in table.partitionKeys or [])
    return TableSeen(table_name(table.dbName, table.tableName), columns, table.parameters or {}, table)


def partition_seen(columns: Sequence[str], partition: Partition, *, is_new: bool = False) -> PartitionSeen:
    """Return what followers see of ``partition``; raise MalformedEvent where it does not fit the table's columns."""
    values = partition.values or []
    if len(values) != len(columns):
        raise MalformedEvent(
            "a partition has other columns than its table", columns=list(columns), values=values[:20]
        )
    return PartitionSeen(
        dict(zip(columns, values, strict=True)), partition.parameters or {}, partition, is_new
    )


def partition_named(columns: Sequence[str], name: str) -> PartitionSeen:
    """Return what the name ``dt=2015-01-01/country=de`` tells; raise MalformedEvent where it does not fit the columns.

    Hive writes characters that no path may have as ``%`` and their code (``FileUtils.escapePathName``).
    """
    pairs = [part.partition("=") for part in name.split("/")]
    spec = {unquote(key, "latin-1").lower(): unquote(value, "latin-1") for key, _, value in pairs}
    if tuple(spec) != tuple(columns):
        raise MalformedEvent(
            "a partition has other columns than its table", columns=list(columns), name=name[:200]
        )
    return PartitionSeen(spec, {}, None)
