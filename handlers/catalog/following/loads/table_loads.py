"""The loads of one listing: each follower's share of it, which every follower takes in the same way.

1. ``Follower.begin_load`` and ``TableLoad.read``, in the thread of calls: computations from the listing
   alone.
2. ``TableLoad.write``, in short transactions between those of events: a follower's additions to the table's
   content.
3. ``FollowerChange.take_load``, in the transaction that stores the listing, or the piece, with the events
   that were missed.

A load that ends before step 3 changes nothing that readers see.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import structlog

from handlers.catalog.following.loads.listings import ListingRequest, read_listing
from handlers.catalog.following.ports import Follower, FollowerChange
from handlers.catalog.following.table_info import Listing
from handlers.catalog.turns import Turns
from handlers.metastore.client import Metastore
from state.errors import Inconsistent, TidelineError
from state.store import Store


log = structlog.get_logger(__name__)


class TableLoads:
    """A listing, or a piece of one, and the loads of all followers that take part in it."""

    def __init__(self, listing: Listing, followers: Sequence[Follower]) -> None:
        """Begin the loads."""
        self.listing = listing
        self._loads = [
            (follower, follower.begin_load(listing))
            # A follower may refuse staged content; then no other follower should have taken anything.
            for follower in sorted(followers, key=lambda one: not one.loads_in_pieces)
            if follower.accepts(listing.table) and (listing.is_last or follower.loads_in_pieces)
        ]

    def read(self) -> None:
        """Compute the loads from the listing (step 1)."""
        for _, load in self._loads:
            load.read()

    def write(self, store: Store) -> bool:
        """Write a part of one load (step 2); return whether there is more."""
        return any(load.write(store) for _, load in self._loads)

    def take(self, pairs: Sequence[tuple[Follower, FollowerChange]]) -> bool:
        """Hand the loads to the followers (step 3); return False if staged content does not fit, so that
        the load must start again.
        """
        return all(
            change.take_load(load)
            for loading, load in self._loads
            for follower, change in pairs
            if follower is loading
        )

    def abandon(self) -> None:
        """End all loads; harmless after ``take``."""
        for _, load in self._loads:
            load.abandon()


def read_loads(
    followers: Sequence[Follower], request: ListingRequest, turns: Turns, source: Metastore
) -> TableLoads:
    """Read a table or its next piece, and compute the loads, in the thread of calls; raise as
    ``read_listing`` does.
    """
    with _containing_defects():
        listing = read_listing(source, followers, request)
        with turns.computing():
            loads = TableLoads(listing, followers)
            loads.read()
    return loads


@contextmanager
def _containing_defects() -> Iterator[None]:
    """Quarantine the table for an unexpected error too, because the error would end the loop for all
    tables.
    """
    try:
        yield
    except TidelineError:
        raise
    except Exception as error:
        log.exception("a table cannot be read")
        raise Inconsistent(
            "the table cannot be read", reason=f"{type(error).__name__}: {error}"[:200]
        ) from error
