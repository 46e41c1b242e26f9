"""The listing of a table, or of a piece of it, and a follower's load from it: the values that followers and loads exchange."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.table_info import PartitionInfo, TableInfo, parse_partition_name


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.catalog.following.states.table_state import LoadProgress
    from state.store import Pause, Store


PARSED_BETWEEN_PAUSES: Final = 200
"""Partition names that are parsed in about a millisecond."""


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
        """Whether it contains all partitions."""
        return self.is_first and self.is_last


@dataclass(frozen=True, slots=True)
class Listing:
    """What was read."""

    as_of: int
    """The newest event id before anything of the table was read."""
    table: TableInfo
    piece: Piece | None
    """For followers that load in pieces."""
    whole: Sequence[str] | Mapping[str, Mapping[str, str]] | None
    """The names of all partitions, for followers that load a table at once; or their values as text, with the parameters that the
    followers read.

    Not objects for each partition: a million would take a gigabyte, and every garbage collection would stop all threads while it looks at
    them. None before the last piece, and if the table's own properties suffice.
    """
    until: int
    """The newest event id afterwards."""
    pause: Pause = lambda: None

    @property
    def is_last(self) -> bool:
        """Whether the table is complete with it."""
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
    """One follower's share of a listing; by default the unchanged listing. A follower that computes or writes more overrides the steps."""

    def __init__(self, listing: Listing) -> None:
        """Load from ``listing``."""
        self.listing = listing

    def read(self) -> None:
        """Compute from the listing, without the store; in the thread of calls. Raises MalformedEvent."""

    def write(self, store: Store) -> bool:  # noqa: ARG002, PLR6301 - nothing is written before the load is taken
        """Write a part, in a transaction of a few hundredths of a second; return whether there is more."""
        return False

    def abandon(self) -> None:
        """End the load; harmless after it was taken."""
