"""What an event about partitions says of them, handed to the followers one partition after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.catalog.following.table_info import partition_named, partition_seen
from handlers.events import PartitionsAdded, PartitionsAltered, PartitionsDropped, StatisticsUpdated


if TYPE_CHECKING:
    from collections.abc import Sequence

    from handlers.catalog.following.ports import FollowerChange
    from handlers.events import Event


def hand_over(event: Event, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]) -> None:
    """Tell ``changes`` of the partitions of the table ``name``; raise MalformedEvent where they do not fit its columns."""
    match event:
        case PartitionsAdded():
            for embedded in event.partitions:
                seen = partition_seen(columns, embedded.value, is_new=True)
                for change in changes:
                    change.put(name, seen)
        case PartitionsAltered():
            _altered(event, name, columns, changes)
        case PartitionsDropped():
            for spec in event.specs:
                for change in changes:
                    change.dropped(name, {column.lower(): value for column, value in spec.items()})
        case StatisticsUpdated() if event.parameters:
            _described(event, name, columns, changes)


def _altered(
    event: PartitionsAltered, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]
) -> None:
    after = [partition_seen(columns, embedded.value) for embedded in event.after]
    if event.before is not None and event.before.value.values != event.after[0].value.values:
        before = partition_seen(columns, event.before.value)
        for change in changes:
            change.dropped(name, before.spec)
    for seen in after:
        for change in changes:
            change.put(name, seen)


def _described(
    event: StatisticsUpdated, name: str, columns: Sequence[str], changes: Sequence[FollowerChange]
) -> None:
    partition_name = event.statistics.value.statsDesc.partName
    if partition_name:
        spec = partition_named(columns, partition_name).spec
        for change in changes:
            change.described(name, spec, event.parameters, event.write_id)
