"""Reads one table, or a piece of it, from the metastore:
everything that a load needs, in one function for the thread of calls.

Nothing here changes the catalog. ``loader`` stores the result, in the catalog's thread.
"""

from __future__ import annotations

import json
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, pairwise
from typing import Final, overload

from handlers.catalog.following.ports import Follower
from handlers.catalog.following.table_info import (
    Listing,
    PartitionInfo,
    Piece,
    TableInfo,
    describe_partition,
    describe_table,
    parse_partition_name,
)
from handlers.catalog.following.table_state import LoadProgress
from handlers.failpoints import failpoint
from handlers.metastore.client import Metastore
from state.errors import AmbiguousCall, MetastoreUnavailable, NotFound, ServerFault
from state.store import Pause
from state.timelines.sorting import release_in_steps, sort_in_steps


FAILED: Final = (ServerFault, AmbiguousCall, MetastoreUnavailable)
"""The metastore did not serve a call, or not in time: the cause may be the table that the call is about."""
BLOCK: Final = 1_000
"""Texts of one block, and texts released in one call."""


@dataclass(frozen=True, slots=True)
class ListingRequest:
    """A table or piece to read."""

    name: str
    trusted: bool
    """Whether a follower may load the table from its properties."""
    progress: LoadProgress | None
    """Progress of a load in pieces."""
    names: Sequence[str] | None
    """The names of its partitions in order, if listed before."""
    size: int
    """Partitions of the next piece."""
    pause: Pause = lambda: None
    """Called between parts of longer computations, so that the catalog's thread applies events meanwhile."""


def read_listing(source: Metastore, followers: Sequence[Follower], request: ListingRequest) -> Listing:
    """Read a table or the next piece of it; raise NotFound if no follower accepts the table, and the
    errors of the calls.
    """
    progress = request.progress
    # Step 1: before the first reading of the table.
    as_of = source.current_event_id() if progress is None else progress.as_of
    table = _read_table(source, followers, request.name)
    accepting = [follower for follower in followers if follower.accepts(table)]
    failpoint("catalog.listed")
    # Step 2: the next piece, and the listing of other followers when the load completes.
    piece = (
        _read_piece(source, table, request, as_of) if any(one.loads_in_pieces for one in accepting) else None
    )
    others = [one for one in accepting if not one.loads_in_pieces and (piece is None or piece.is_last)]
    need = [one for one in others if not (request.trusted and one.properties_suffice(table))]
    whole = _read_whole(source, table, need, piece, request.pause) if need else None
    return Listing(as_of, table, piece, whole, source.current_event_id(), request.pause)


def list_partitions(source: Metastore, table: TableInfo, *, by_name: bool) -> Iterator[PartitionInfo]:
    """Yield all partitions of a table:
    by name in one call, or whole in batches. Raises Transient, MalformedEvent.
    """
    if by_name:
        for name in source.partition_names(table.db, table.table):
            yield parse_partition_name(table.columns, name)
    else:
        for partition in source.all_partitions(table.db, table.table):
            yield describe_partition(table.columns, partition)


def _read_table(source: Metastore, followers: Sequence[Follower], name: str) -> TableInfo:
    db, _, table_part = name.partition(".")
    table = describe_table(source.get_table(db, table_part))
    if not any(follower.accepts(table) for follower in followers):
        raise NotFound("the table is no longer followed", table=name)
    return table


def _read_piece(source: Metastore, table: TableInfo, request: ListingRequest, as_of: int) -> Piece:
    """Read the next piece of a table; one call lists the names."""
    names = request.names
    if names is None:
        names = _read_names(source, table, request.pause)
    before = request.progress or LoadProgress(as_of, table.columns)
    start = bisect_right(names, before.last) if before.last else 0
    piece_names = names[start : start + request.size]
    whole = source.get_partitions(table.db, table.table, piece_names) if piece_names else []
    after = replace(
        before,
        last=piece_names[-1] if piece_names else before.last,
        done=before.done + len(whole),
        total=len(names),
    )
    partitions = [describe_partition(table.columns, partition) for partition in whole]
    is_last = start + request.size >= len(names)
    return Piece(partitions, after, names, is_first=request.progress is None, is_last=is_last)


def _read_names(source: Metastore, table: TableInfo, pause: Pause) -> TextList:
    """Return the names of all partitions in order, freeing the memory of the answer in steps."""
    # Not copied: one call over a million names stops all threads.
    listed = source.partition_names(table.db, table.table)
    ordered = sort_in_steps(listed, pause)
    names = ordered if isinstance(ordered, list) else list(ordered)
    if names is not listed:
        release_in_steps(listed, pause)
    return TextList.take(names, pause)


def _read_whole(
    source: Metastore, table: TableInfo, followers: Sequence[Follower], piece: Piece | None, pause: Pause
) -> Sequence[str] | Mapping[str, Mapping[str, str]]:
    """Return the names of all partitions, or their values with the parameters that followers read.

    A piece that contains all partitions needs no second listing. Names of several pieces do: events that
    arrived between the pieces are only in the staged content.
    """
    read = piece if piece is not None and piece.is_whole else None
    if all(one.names_suffice(table) for one in followers):
        return read.names if read else _read_names(source, table, pause)
    partitions = read.partitions if read else list_partitions(source, table, by_name=False)
    keys = sorted({key for one in followers for key in one.partition_parameters})
    shared: dict[tuple[tuple[str, str], ...], Mapping[str, str]] = {}
    whole = {}
    for one in partitions:
        parameters = tuple((key, one.parameters[key]) for key in keys if key in one.parameters)
        whole[json.dumps(list(one.spec.values()))] = shared.setdefault(parameters, dict(parameters))
    return whole


class TextList(Sequence[str]):
    """An immutable sequence of texts in few objects, for a thread that must not delay others.

    A list of a million strings is a million objects: the garbage collector looks at each of them, and the
    last reference to the list frees them all in one call. Both keep every thread of the process waiting for a
    tenth of a second. Here a block of texts is one string, so a million texts are a thousand objects, and
    take a third of the memory. Each read creates a new text.
    """

    def __init__(self) -> None:
        """Create an empty list; ``take`` creates a filled one."""
        self._blocks: list[tuple[str, array[int]]] = []
        """Joined texts, and the end of each; all blocks but the last are full."""
        self._length = 0

    @staticmethod
    def take(texts: list[str], pause: Callable[[], None] = lambda: None) -> TextList:
        """Move all texts out of a list, which is empty afterwards. Calls ``pause`` after each block.

        This frees the list's strings block by block, if nothing else refers to them.
        """
        made = TextList()
        made._length = len(texts)
        while texts:
            start = (len(texts) - 1) // BLOCK * BLOCK
            made._blocks.append(_join(texts[start:]))
            del texts[start:]
            pause()
        made._blocks.reverse()
        return made

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(_split(*block) for block in self._blocks)

    @overload
    def __getitem__(self, at: int) -> str: ...

    @overload
    def __getitem__(self, at: slice) -> list[str]: ...

    def __getitem__(self, at: int | slice) -> str | list[str]:
        if isinstance(at, slice):
            start, stop, step = at.indices(self._length)
            assert step == 1, "the parts of the list must be read in order"
            first, last = start // BLOCK, -(-stop // BLOCK)
            texts = [text for block in self._blocks[first:last] for text in _split(*block)]
            return texts[start - first * BLOCK : max(stop - first * BLOCK, 0)]
        number = range(self._length)[at]
        joined, ends = self._blocks[number // BLOCK]
        within = number % BLOCK
        return joined[ends[within - 1] if within else 0 : ends[within]]


def _join(texts: list[str]) -> tuple[str, array[int]]:
    return "".join(texts), array("Q", accumulate(map(len, texts)))


def _split(joined: str, ends: array[int]) -> list[str]:
    return [joined[start:end] for start, end in pairwise(chain((0,), ends))]
