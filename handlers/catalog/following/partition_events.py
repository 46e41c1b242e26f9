"""Applies events about partitions: breaks an event down into single partitions and hands each to the followers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.catalog.following.table_info import describe_partition, parse_partition_name
from handlers.events import PartitionsAdded, PartitionsAltered, PartitionsDropped, StatisticsUpdated


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.following.ports import FollowerChange
    from handlers.events import Event


def apply_partition_event(
    event: Event, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]
) -> None:
    """Apply the event to the table ``name`` in ``changes``; raise MalformedEvent where it does not fit the table's columns."""
    match event:
        case PartitionsAdded():
            for embedded in event.partitions:
                added = describe_partition(columns, embedded.value, is_new=True)
                for change in changes:
                    change.put_partition(name, added)
        case PartitionsAltered():
            _alter(event, name, columns, changes)
        case PartitionsDropped():
            for spec in event.specs:
                for change in changes:
                    change.drop_partition(name, {column.lower(): value for column, value in spec.items()})
        case StatisticsUpdated() if event.parameters:
            _update_statistics(event, name, columns, changes)


def _alter(
    event: PartitionsAltered, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]
) -> None:
    after = [describe_partition(columns, embedded.value) for embedded in event.after]
    if event.before is not None and event.before.value.values != event.after[0].value.values:
        before = describe_partition(columns, event.before.value)
        for change in changes:
            change.drop_partition(name, before.spec)
    for altered in after:
        for change in changes:
            change.put_partition(name, altered)


def _update_statistics(
    event: StatisticsUpdated, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]
) -> None:
    partition_name = event.statistics.value.statsDesc.partName
    if partition_name:
        spec = parse_partition_name(columns, partition_name).spec
        for change in changes:
            change.update_statistics(name, spec, event.parameters, event.write_id)
