"""Compares a table of the partition index with the partitions that the source has now: names, values and every field."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from handlers.catalog.following.loader import PIECE
from handlers.catalog.index.payloads import normalize
from handlers.structs.struct import Struct


if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from handlers.catalog.index.partition_follower import PartitionFollower
    from handlers.metastore.client import Metastore
    from handlers.structs.objects import Partition


SHOWN_MAX: Final = 100
"""Differences of each kind that are listed by name; the rest are only counted."""


@dataclass(slots=True)
class PartitionComparison:
    """The result of a check; where ``moving``, the source changed meanwhile, which may be the only difference.

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
    source: Metastore, follower: PartitionFollower, name: str, event_id: Callable[[], int]
) -> Generator[None, None, PartitionComparison]:
    """Compare a table of the index, which reflects ``event_id()``, with the source, in steps. Raises NotFound, Transient.

    All names are kept in memory; partitions are fetched a few hundred at a time, with a step for each fetch. Events may be applied
    between steps; then ``moving`` says that differences may have that cause.
    """
    began_at = event_id()
    found = PartitionComparison()
    db, _, table = name.partition(".")
    at_source = source.partition_names(db, table)
    indexed_names = set(follower.index.names(follower.index.prepare(name, "")))
    missing, surplus = (
        [one for one in at_source if one not in indexed_names],
        sorted(indexed_names.difference(at_source)),
    )
    found.missing_count, found.surplus_count = len(missing), len(surplus)
    found.missing, found.surplus = missing[:SHOWN_MAX], surplus[:SHOWN_MAX]
    both = [one for one in at_source if one in indexed_names]
    for start in range(0, len(both), PIECE):
        partitions = source.get_partitions(db, table, both[start : start + PIECE])
        _compare_piece(partitions, follower, name, found)
        yield
    found.source_event_id = source.current_event_id()
    found.moving = not began_at == event_id() == found.source_event_id
    return found


def _compare_piece(
    partitions: list[Partition], follower: PartitionFollower, name: str, found: PartitionComparison
) -> None:
    indexed = follower.index.get_each(name, [partition.values for partition in partitions])
    for partition, known in zip(partitions, indexed, strict=True):
        found.compared += 1
        source_fields = dict(_fields(normalize(partition)))
        index_fields = {} if known is None else dict(_fields(follower.whole(name, known)))
        fields = sorted(
            one
            for one in source_fields.keys() | index_fields.keys()
            if source_fields.get(one) != index_fields.get(one)
        )
        if fields:
            found.differing_count += 1
            if len(found.differing) < SHOWN_MAX:
                found.differing[known.name if known else str(partition.values)] = fields


def _fields(value: Struct, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (path, value) of every set field."""
    fields: Mapping[str, Any] = value.set_fields()
    for name, one in fields.items():
        if isinstance(one, Struct):
            yield from _fields(one, f"{prefix}{name}.")
        else:
            yield prefix + name, one
