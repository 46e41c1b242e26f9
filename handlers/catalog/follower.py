"""The seam between the catalog and whoever wants to know what exists: timelines today, a partition index beside them.

The catalog reads the topic and the metastore once for all of them. A follower writes into the catalog's own store
transaction, under keys of its own, so that what it remembers and the position commit together; what it shows to readers
changes in ``publish``, after the commit. Every call may come again for something that is known already (events overlap with
the listing that a table was loaded from), and then changes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Iterable
    from collections.abc import Set as AbstractSet

    from handlers.catalog.seen import PartitionSeen, Spec, TableSeen
    from state.store import Reader, Transaction


class FollowerChange(Protocol):
    """What one transaction does to one follower."""

    @property
    def unsure(self) -> AbstractSet[str]:
        """Tables that this change could not decide about: to be loaded again from their partitions."""

    def created(self, table: TableSeen) -> None:
        """A table is new and empty; what was known under its name is gone."""

    def altered(self, table: TableSeen) -> None:
        """A followed table may have other parameters."""

    def renamed(self, old: str, table: TableSeen) -> None:
        """A table is called otherwise, with everything it has."""

    def forgotten(self, name: str) -> None:
        """A table is gone, or not wanted any more."""

    def loaded_cheaply(self, table: TableSeen) -> bool:
        """Take a table's content from the table itself; False where a listing of its partitions is needed."""

    def loaded(self, table: TableSeen, partitions: Iterable[PartitionSeen]) -> None:
        """These are all partitions of a table; replaces what is known."""

    def put(self, name: str, partition: PartitionSeen) -> None:
        """A partition exists, with these parameters: added or altered."""

    def dropped(self, name: str, spec: Spec) -> None:
        """A partition is gone."""

    def publish(self) -> None:
        """Show the changes to readers: called once, after the commit."""


class Follower(Protocol):
    """One reader of the catalog; its state lives in the catalog's store."""

    @property
    def rules_text(self) -> str:
        """What decides which tables it wants; when it differs from before, all tables are looked at again."""

    def open(self, reader: Reader) -> None:
        """Read the state anew, dropping what a failed change left in memory; raises StateCorrupt."""

    def wants(self, table: TableSeen) -> bool:
        """Whether it follows such a table."""

    def names_suffice(self, table: TableSeen) -> bool:
        """Whether the names of a table's partitions tell it enough; whole partitions take a hundred times as long to list."""

    def change(self, txn: Transaction) -> FollowerChange:
        """Start a change within a transaction."""
