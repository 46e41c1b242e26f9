"""Compares a table of the partition index with the partitions that the source has now:
names, values and every field.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Final

from handlers.catalog.following.background import BackgroundCalls, await_in_steps
from handlers.catalog.following.loads.steps import PIECE
from handlers.catalog.following.table_info import parse_partition_name
from handlers.catalog.index.partition_follower import PartitionFollower
from handlers.catalog.index.payloads import normalize
from handlers.structs.objects import Partition
from handlers.structs.struct import Struct
from state.partitions.index.partition_index import IndexedPartition
from state.pieces import in_pieces


SHOWN_MAX: Final = 100
"""Differences of each kind listed by name; it only counts the rest."""


@dataclass(slots=True)
class PartitionComparison:
    """The result of a check; if ``moving``, the source changed meanwhile, which may explain all differences.

    The field names are those of the JSON answer.
    """

    compared: int = 0
    missing_count: int = 0
    """In the source, not in the index."""
    surplus_count: int = 0
    """In the index, not in the source."""
    differing_count: int = 0
    missing: list[str] = field(default_factory=list)
    surplus: list[str] = field(default_factory=list)
    differing: dict[str, list[str]] = field(default_factory=dict)
    """Name to the fields that differ, such as ``sd.location``."""
    source_event_id: int = 0
    moving: bool = False

    @property
    def drift(self) -> int:
        """The number of partitions that differ."""
        return self.missing_count + self.surplus_count + self.differing_count


def compare_partitions(
    calls: BackgroundCalls, follower: PartitionFollower, name: str, event_id: Callable[[], int]
) -> Generator[None, None, PartitionComparison]:
    """Compare a table of the index, which reflects ``event_id()``,
    with the source, in steps. Raises NotFound, Transient.

    The names at the source are in memory; the check fetches partitions a few hundred at a time, in the thread
    of calls, with a step for each fetch. Events may apply between steps; then ``moving`` says that these
    events may explain differences. Reads the names in the index only if their number shows that some are not
    at the source.
    """
    began_at = event_id()
    comparison = PartitionComparison()
    db, _, table = name.partition(".")
    at_source = yield from await_in_steps(calls.submit(methodcaller("partition_names", db, table)))
    columns = tuple(column.name for column in follower.index.columns(name))
    indexed = 0
    for names in in_pieces(at_source, PIECE):
        fetched = yield from await_in_steps(calls.submit(methodcaller("get_partitions", db, table, names)))
        indexed += _compare_piece(names, columns, fetched, follower, name, comparison)
        yield
    if indexed != (follower.indexed.get(name) or 0):
        surplus = set(follower.index.names(follower.index.prepare(name, ""))).difference(at_source)
        comparison.surplus_count, comparison.surplus = len(surplus), sorted(surplus)[:SHOWN_MAX]
    comparison.source_event_id = yield from await_in_steps(
        calls.submit(lambda source: source.current_event_id())
    )
    comparison.moving = not began_at == event_id() == comparison.source_event_id
    return comparison


def _compare_piece(  # noqa: PLR0913, PLR0917 - one piece of both sides
    names: Sequence[str],
    columns: tuple[str, ...],
    fetched: Sequence[Partition],
    follower: PartitionFollower,
    name: str,
    comparison: PartitionComparison,
) -> int:
    """Compare the partitions of some names; return how many of the names are in the index."""
    values = [tuple(parse_partition_name(columns, one).spec.values()) for one in names]
    by_values = dict(zip(values, follower.index.get_each(name, values), strict=True))
    missing = [one for one, key in zip(names, values, strict=True) if by_values[key] is None]
    comparison.missing_count += len(missing)
    comparison.missing += missing[: SHOWN_MAX - len(comparison.missing)]
    for partition in fetched:
        one = by_values.get(tuple(partition.values or ()))
        if one is not None:
            _compare_fields(partition, one, follower, name, comparison)
    return len(names) - len(missing)


def _compare_fields(
    partition: Partition,
    indexed: IndexedPartition,
    follower: PartitionFollower,
    name: str,
    comparison: PartitionComparison,
) -> None:
    comparison.compared += 1
    source_fields = dict(_fields(normalize(partition)))
    index_fields = dict(_fields(follower.whole(name, indexed)))
    fields = sorted(
        one
        for one in source_fields.keys() | index_fields.keys()
        if source_fields.get(one) != index_fields.get(one)
    )
    if fields:
        comparison.differing_count += 1
        if len(comparison.differing) < SHOWN_MAX:
            comparison.differing[indexed.name] = fields


def _fields(value: Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of every set field."""
    fields: Mapping[str, Any] = value.set_fields()
    for name, one in fields.items():
        if isinstance(one, Struct):
            yield from _fields(one, f"{prefix}{name}.")
        else:
            yield prefix + name, one
