"""Breaks an event about partitions down into changes of single partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.catalog.following.table_info import (
    ChangedStatistics,
    DroppedPartition,
    PutPartition,
    describe_partition,
    parse_partition_name,
)
from handlers.events import PartitionsAdded, PartitionsAltered, PartitionsDropped, StatisticsUpdated


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from handlers.catalog.following.table_info import PartitionChange
    from handlers.events import Event


def read_partition_changes(event: Event, name: str, columns: Sequence[str]) -> Iterator[PartitionChange]:
    """Yield what an event changes in the table ``name``; raise MalformedEvent where it does not fit the table's columns."""
    match event:
        case PartitionsAdded():
            for embedded in event.partitions:
                yield PutPartition(name, describe_partition(columns, embedded.value, is_new=True))
        case PartitionsAltered():
            yield from _read_altered(event, name, columns)
        case PartitionsDropped():
            for spec in event.specs:
                yield DroppedPartition(name, {column.lower(): value for column, value in spec.items()})
        case StatisticsUpdated() if event.parameters:
            partition_name = event.statistics.value.statsDesc.partName
            if partition_name:
                spec = parse_partition_name(columns, partition_name).spec
                yield ChangedStatistics(name, spec, event.parameters, event.write_id)


def _read_altered(event: PartitionsAltered, name: str, columns: Sequence[str]) -> Iterator[PartitionChange]:
    after = [describe_partition(columns, embedded.value) for embedded in event.after]
    if event.before is not None and event.before.value.values != event.after[0].value.values:
        yield DroppedPartition(name, describe_partition(columns, event.before.value).spec)
    for altered in after:
        yield PutPartition(name, altered)
