"""The ports of the catalog: the methods of a follower and of an observer.

Followers (the timelines and the partition index) need to know which tables and partitions exist. The catalog
reads the topic and the metastore once for all of them. A follower writes in the catalog's store transaction,
under its own keys, so that its state commits together with the position. A follower with its own
store commits there first, so the catalog may repeat any call after a crash.

The catalog may repeat every call for a table or partition already known, because events overlap with the
listing of its load. Such a call changes nothing. Readers see the changes after ``publish``, which follows the
commit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from handlers.catalog.following.table_info import Listing, TableChange, TableInfo, TableLoad
from handlers.structs.objects import Partition
from state.errors import TidelineError
from state.store import Store, Transaction


@dataclass(frozen=True, slots=True)
class SampledPartition:
    """A partition as a follower has stored it."""

    name: str
    values: tuple[str, ...]
    partition: Partition


class FollowerChange(Protocol):
    """The changes that one transaction makes to one follower."""

    def apply(self, change: TableChange) -> bool:
        """Apply a change; during a load in pieces, apply it to the staged content. Raises BadInput if it does
        not fit the table.

        Returns False if the follower cannot decide about it: the table needs another load from its
        partitions.
        """

    def take_load(self, load: TableLoad) -> bool:
        """Replace a table's content by the result of one of this follower's loads, or stage a piece of it.

        Returns False, and changes nothing, if the staged content belongs to another table definition.
        """

    def publish(self) -> None:
        """Make the changes visible to readers; called once, after the commit."""


class Follower(Protocol):
    """A reader of the catalog; its state is in the catalog's store or in its own store."""

    @property
    def rules_text(self) -> str:
        """The rules that select tables, as text; a change makes the catalog survey all tables."""

    @property
    def loads_in_pieces(self) -> bool:
        """Whether large tables load in pieces, with a staged content that includes the events that arrive."""

    @property
    def partition_parameters(self) -> frozenset[str]:
        """The parameters of partitions that the follower reads from a listing that is not in pieces."""

    def open(self, store: Store) -> None:
        """Read the state from the store and discard the memory of a failed change; raise StateCorrupt."""

    def accepts(self, table: TableInfo) -> bool:
        """Whether the rules select the table; thread-safe."""

    def names_suffice(self, table: TableInfo) -> bool:
        """Whether partition names are enough to load the table;
        listing whole partitions takes a hundred times as long.

        Thread-safe.
        """

    def properties_suffice(self, table: TableInfo) -> bool:
        """Whether the table's own properties contain the same facts as its partitions; thread-safe."""

    def begin_load(self, listing: Listing) -> TableLoad:
        """Begin a load from a listing, or from a piece with ``loads_in_pieces``; in the thread of calls."""

    def sample(self, name: str) -> Sequence[SampledPartition]:
        """Return a few stored partitions of a table, to determine whether a change of columns reached
        them.
        """

    def open_change(self, txn: Transaction) -> AbstractContextManager[FollowerChange]:
        """Open a change in the catalog's transaction; a follower's own store commits when the block ends."""

    def tidy(self, store: Store) -> bool:
        """Remove a part of the forgotten content, within a few hundredths of a second; return whether there
        may be more.
        """

    def close(self) -> None:
        """Release the follower's own resources."""


@contextmanager
def open_changes(
    store: Store, followers: Iterable[Follower]
) -> Iterator[tuple[Transaction, list[FollowerChange]]]:
    """Open one transaction with a change for each follower; the catalog's store commits last, then it
    publishes all changes.
    """
    with store.transaction() as txn, ExitStack() as own:
        changes = [own.enter_context(follower.open_change(txn)) for follower in followers]
        yield txn, changes
    for change in changes:
        change.publish()


class Observer(Protocol):
    """Receives counts about the catalog; implementations are thread-safe and never raise."""

    def event_applied(self, kind: str) -> None:
        """An event changed a followed table."""

    def event_skipped(self, reason: str) -> None:
        """An event changed nothing:
        ``out-of-scope``, ``quarantined``, ``loading``, ``in-snapshot`` or ``own``.
        """

    def table_loaded(self, reason: str) -> None:
        """Report a load from the source: ``snapshot``, ``changed``, ``unsure`` or ``asked``."""

    def table_quarantined(self, table: str, error: TidelineError) -> None:
        """Report a quarantined table."""

    def load_failed(self, table: str, error: TidelineError, pause_s: float) -> None:
        """Report that the metastore failed to serve the load of a table; the
        next try is after ``pause_s``.
        """

    def values_refused(self, reason: str, count: int) -> None:
        """Report refused partition values: ``no-time`` or ``stray``."""

    def published(self, outcome: str) -> None:
        """Publishing of a table ended: ``written``, ``same``, ``conflict``, ``failed``, ``too-long``,
        ``missing``, ``not-there-yet`` or ``fault``.

        ``overwrote``: its event shows that it replaced a change of another writer.
        """


class NullObserver:
    """An observer that ignores everything."""

    def event_applied(self, kind: str) -> None:
        """Ignore it."""

    def event_skipped(self, reason: str) -> None:
        """Ignore it."""

    def table_loaded(self, reason: str) -> None:
        """Ignore it."""

    def table_quarantined(self, table: str, error: TidelineError) -> None:
        """Ignore it."""

    def load_failed(self, table: str, error: TidelineError, pause_s: float) -> None:
        """Ignore it."""

    def values_refused(self, reason: str, count: int) -> None:
        """Ignore it."""

    def published(self, outcome: str) -> None:
        """Ignore it."""
