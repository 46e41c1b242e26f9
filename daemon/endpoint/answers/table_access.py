"""The port between the partition calls and the index: returns a snapshot of a table, or a reason to forward.

The implementation of ``TableAccess`` finds the index and decides when it is fresh enough. The partition calls
interpret a call and decide whether the index can answer it. An answer uses one ``TableView`` from its first
to its last byte. The query to the metastore runs while the answer is made, so it may show only afterwards
that the view was too old.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol, TypeVar


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.catalog.index.partition_snapshot import PartitionSnapshot
    from handlers.catalog.index.table_records import TableRecord


T = TypeVar("T")


class Reason(StrEnum):
    """Reasons to forward a partition call; the values are labels of a metric."""

    UNKNOWN_TABLE = "unknown-table"
    """The table is not in the index, or does not exist."""
    NOT_FRESH = "not-fresh"
    """The index has not applied the source's newest event within the bound."""
    NOT_FOLLOWING = "not-following"
    """The table waits for a load, is loading, or is in quarantine."""
    DIFFERS = "differs"
    """An answer for this table differed from the metastore's."""
    UNAVAILABLE = "unavailable"
    """The index is unreadable, or the source's newest event id is unreadable."""
    ARGUMENTS = "arguments"
    """The arguments have fields or values that the index does not answer: statistics, other catalogs, unknown
    fields."""
    SERVER = "server"
    """The metastore has a setting under which its answers depend on more than the partitions: authorization
    or limits."""
    NOT_CERTAIN = "not-certain"
    """Metastores differ in the answer to this filter."""
    EXPRESSION = "expression"
    """The expression cannot be read, or not be answered exactly."""
    REFUSED = "refused"
    """The index would report an error; the metastore reports its own."""
    DEFECT = "defect"
    """An unexpected error, logged."""


class NotAnswered(Exception):
    """Raised by the answers to forward the call; a ``TableAccess`` never raises it."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Forward:
    """The result of ``TableRequest.read`` if the call must be forwarded."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class TableView:
    """One table in one snapshot of the index, valid until the answer is complete. Use it from one thread
    only.
    """

    name: str
    """``db.table`` in lower case, under which ``snapshot`` knows the table."""
    snapshot: PartitionSnapshot
    record: TableRecord
    """The catalog's record of the table."""
    event_id: int
    """The event that the snapshot reflects."""


class TableRequest(Protocol):
    """One request, from its arrival on. Use it from one thread only."""

    def read(self, db: str, table: str, make: Callable[[TableView], T]) -> tuple[T, TableView] | Forward:
        """Return the result of ``make`` for a table of the catalog ``hive``, and the view, which is closed by
        then. ``db`` and ``table`` may have upper-case letters.

        The view reflects at least the event that was the source's newest one when the request arrived, unless
        the configuration permits an older view. The index follows the table. May call ``make`` twice, and
        drops the result for a view that was too old. Errors of ``make`` reach the caller, even with a view
        that was too old, because the endpoint then only forwards the call.
        """


class TableAccess(Protocol):
    """Reads tables of one metastore's index; thread-safe."""

    def arrive(self, *, is_likely: bool = False) -> TableRequest:
        """Begin a request that arrives now. ``is_likely`` says that the index will probably answer it."""
