"""The seam between the catalog and whoever wants to know what exists: timelines, and the partition index beside them.

The catalog reads the topic and the metastore once for all of them. A follower writes into the catalog's own store
transaction, under keys of its own, so that what it remembers and the position commit together (or into a store of its own, whose
transaction then commits first: every call may come again). What it shows to readers changes in ``publish``, after the commit.
Every call may come again for something that is known already (events overlap with the listing that a table was loaded from),
and then changes nothing.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet
    from contextlib import AbstractContextManager

    from handlers.catalog.following.table_info import PartitionSeen, Spec, TableSeen
    from state.store import Reader, Store, Transaction


class Staging(Protocol):
    """How a follower takes a table in pieces, beside what it knows of it, while events go on."""

    def begin(self, table: TableSeen) -> None:
        """Start anew with nothing; what was staged before is gone."""

    def fits(self, table: TableSeen) -> bool:
        """Whether what is staged is of this very table, so that it can go on."""

    def stage(self, name: str, partitions: Sequence[PartitionSeen]) -> None:
        """Some of the table's partitions; each may come again."""

    def finish(self, table: TableSeen) -> None:
        """That was all: from now on what was staged is the table's content."""


class FollowerChange(Protocol):
    """What one transaction does to one follower."""

    @property
    def unsure(self) -> AbstractSet[str]:
        """Tables that this change could not decide about: to be loaded again from their partitions."""

    @property
    def staging(self) -> Staging | None:
        """How it takes tables in pieces; None where it takes a listing at once. ``put`` and ``dropped`` reach what is staged."""

    def created(self, table: TableSeen) -> None:
        """A table is new and empty; what was known under its name is gone."""

    def altered(self, table: TableSeen) -> None:
        """A followed table may have other parameters or columns."""

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

    def described(self, name: str, spec: Spec, parameters: Mapping[str, str], write_id: int | None) -> None:
        """A partition's statistics were computed, which changed these of its parameters."""

    def dropped(self, name: str, spec: Spec) -> None:
        """A partition is gone."""

    def publish(self) -> None:
        """Show the changes to readers: called once, after the commit."""


class Follower(Protocol):
    """One reader of the catalog; its state lives in the catalog's store, or in one of its own."""

    @property
    def rules_text(self) -> str:
        """What decides which tables it wants; when it differs from before, all tables are looked at again."""

    @property
    def stages(self) -> bool:
        """Whether it takes tables in pieces."""

    def open(self, reader: Reader) -> None:
        """Read the state anew, dropping what a failed change left in memory; raises StateCorrupt."""

    def wants(self, table: TableSeen) -> bool:
        """Whether it follows such a table."""

    def names_suffice(self, table: TableSeen) -> bool:
        """Whether the names of a table's partitions tell it enough; whole partitions take a hundred times as long to list."""

    def guarded(self) -> AbstractContextManager[object]:
        """Keep readers out from before a transaction until its changes are shown."""

    def changing(self, txn: Transaction) -> AbstractContextManager[FollowerChange]:
        """Give a change within the catalog's transaction; where it has a store of its own, the end of the block commits there."""

    def close(self) -> None:
        """Release what it holds of its own."""


@contextmanager
def changing(
    store: Store, followers: Iterable[Follower]
) -> Iterator[tuple[Transaction, list[FollowerChange]]]:
    """Give one transaction with a change for each follower; all commit, the catalog's last, then all are shown."""
    with ExitStack() as guards:
        for follower in followers:
            guards.enter_context(follower.guarded())
        with store.transaction() as txn, ExitStack() as own:
            changes = [own.enter_context(follower.changing(txn)) for follower in followers]
            yield txn, changes
        for change in changes:
            change.publish()


class Observer(Protocol):
    """Receives counts; implementations are thread-safe and never raise."""

    def event_applied(self, kind: str) -> None:
        """An event changed what is followed."""

    def event_skipped(self, reason: str) -> None:
        """An event changed nothing: ``out-of-scope``, ``quarantined``, ``loading``, ``in-snapshot`` or ``own``."""

    def table_loaded(self, reason: str) -> None:
        """A table was loaded from the source: ``snapshot``, ``changed``, ``unsure`` or ``asked``."""

    def table_quarantined(self, code: str) -> None:
        """A table is not followed any more."""

    def values_refused(self, reason: str, count: int) -> None:
        """Partition values were not taken: ``no-time`` or ``stray``."""

    def published(self, outcome: str) -> None:
        """A table's properties were ``written``, were the ``same``, or not: ``conflict``, ``failed``, ``missing``, ``not-there-yet``."""


class Silent:
    """An observer that does not look."""

    def event_applied(self, kind: str) -> None:
        """Ignore it."""

    def event_skipped(self, reason: str) -> None:
        """Ignore it."""

    def table_loaded(self, reason: str) -> None:
        """Ignore it."""

    def table_quarantined(self, code: str) -> None:
        """Ignore it."""

    def values_refused(self, reason: str, count: int) -> None:
        """Ignore it."""

    def published(self, outcome: str) -> None:
        """Ignore it."""
