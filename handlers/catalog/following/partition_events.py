"""Breaks an event about partitions down into changes of single partitions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from handlers.catalog.following.table_info import (
    ChangedStatistics,
    DroppedPartition,
    PartitionChange,
    PartitionInfo,
    PutPartition,
    describe_partition,
    outline_partition,
    parse_partition_name,
)
from handlers.events import (
    Embedded,
    Event,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsUpdated,
)
from handlers.structs.objects import Partition


def read_partition_changes(
    event: Event, name: str, columns: Sequence[str], *, whole: bool
) -> Iterator[PartitionChange]:
    """Yield the changes of an event in the table ``name``, with whole partitions only if ``whole``.

    Raises MalformedEvent if the event does not fit the table's columns.
    """
    match event:
        case PartitionsAdded():
            for embedded in event.partitions:
                yield PutPartition(name, _describe(columns, embedded, whole=whole, is_new=True))
        case PartitionsAltered():
            yield from _read_altered(event, name, columns, whole=whole)
        case PartitionsDropped():
            for spec in event.specs:
                yield DroppedPartition(name, {column.lower(): value for column, value in spec.items()})
        case StatisticsUpdated() if event.parameters:
            partition_name = event.statistics.value.statsDesc.partName
            if partition_name:
                spec = parse_partition_name(columns, partition_name).spec
                yield ChangedStatistics(name, spec, event.parameters, event.write_id)


def _read_altered(
    event: PartitionsAltered, name: str, columns: Sequence[str], *, whole: bool
) -> Iterator[PartitionChange]:
    after = [_describe(columns, embedded, whole=whole) for embedded in event.after]
    if event.before is not None:
        before = _describe(columns, event.before, whole=whole)
        if before.spec != after[0].spec:
            yield DroppedPartition(name, before.spec)
    for altered in after:
        yield PutPartition(name, altered)


def _describe(
    columns: Sequence[str], embedded: Embedded[Partition], *, whole: bool, is_new: bool = False
) -> PartitionInfo:
    if whole:
        return describe_partition(columns, embedded.value, is_new=is_new)
    return outline_partition(columns, embedded.outline, is_new=is_new)
