"""What a flat table asks of a metastore: few calls, with Hive's objects.

A Hive 4 metastore (``hive``) and the one inside Spark (``spark``) differ in how a call travels and how compare-and-set is done; all
else is one implementation (``stored``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.structs import Partition, Table


class Catalog(Protocol):
    """What a flat table asks of a metastore; names and errors are those of ``handlers.metastore.Metastore``."""

    def get_table(self, db: str, name: str) -> Table:
        """Return the table; NotFound."""

    def create_table(self, table: Table) -> None:
        """Create it; AlreadyExists, NotFound."""

    def replace_table(self, table: Table, *, key: str, expected: str) -> None:
        """Store ``table`` if the stored one's parameter ``key`` is ``expected``, else raise Conflict."""

    def partition_names(self, db: str, table: str) -> list[str]:
        """Return the names of all partitions."""

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return those that exist."""

    def add_partition(self, partition: Partition) -> None:
        """Add it, without counting its files; one that exists stays as it is."""

    def replace_partition(self, partition: Partition) -> None:
        """Replace the partition with its values, without counting its files."""

    def forget_statistics(self, partition: Partition, name: str) -> None:
        """Delete the column statistics of a partition, whose name is ``name``; none there is no error."""

    def drop_partitions(self, db: str, table: str, names: Sequence[str]) -> None:
        """Drop those that exist, not their files."""
