"""The partitions of the target's table during its load.

The load adds them, then copies their files and writes their column statistics. Last, it writes their
definitions once more, for three reasons: an addition stores no write id, writing column statistics changes
the mark of accurate statistics, and a partition of an earlier try may be out of date. Other partitions stay
unchanged, because an alteration takes the metastore longer than an addition.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from handlers.replication.effects.accuracy_marks import remove_unreliable
from handlers.replication.effects.avro_schemas import SchemaFiles
from handlers.replication.loading.table.snapshot import TableSnapshot
from handlers.replication.loading.table.statistics import adjust_statistics
from handlers.replication.loading.table.tools import LoadTools
from handlers.replication.target.objects import (
    KEEP_STATISTICS,
    format_partition_name,
    map_partition_location,
    owns_data,
    partition_key_names,
    to_target_partition,
)
from handlers.structs.objects import Partition, Table
from state.pieces import in_pieces
from state.timelines.table_properties import DDL_TIME
from state.transactions.valid_write_ids import ValidWriteIds


_DROPPED_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class TargetPartition:
    """A partition of the table under load."""

    name: str
    source_location: str | None
    definition: Partition
    """Required definition on the target, with the target's location."""
    is_stored: bool
    """Whether the target stored exactly this definition when the partition was added."""

    @property
    def location(self) -> str | None:
        """Where the partition is on the target."""
        return self.definition.sd.location


class TargetPartitions:
    """The partitions of the table that one load creates."""

    def __init__(self, table: str, tools: LoadTools) -> None:
        self._table = table
        self._source = tools.source
        self._target = tools.target
        self._policy = tools.policy
        self._schemas = SchemaFiles(tools)

    def drop_others(self, owner: Table, names: frozenset[str]) -> None:
        """Drop the partitions of an earlier try that the source no longer has."""
        db = self._policy.target_db
        others = [other for other in self._target.partition_names(db, self._table) if other not in names]
        for piece in in_pieces(others, _DROPPED_AT_ONCE):
            self._target.drop_partitions(
                db,
                self._table,
                piece,
                delete_data=owns_data(owner),
                if_exists=True,
            )

    def put(
        self, owner: Table, partitions: Sequence[Partition], snapshot: TableSnapshot
    ) -> list[TargetPartition]:
        """Add the partitions of the source in the target's form; existing ones of an earlier try stay.

        It reads the target's result, because its metastore may choose the location and change parameters.
        """
        db, keys = self._policy.target_db, partition_key_names(owner)
        names = [format_partition_name(keys, list(each.values or [])) for each in partitions]
        places = [each.sd.location for each in partitions]
        for name, partition in zip(names, partitions, strict=True):
            self._define(name, partition, owner, snapshot)
        self._target.add_partitions(db, self._table, partitions, environment=KEEP_STATISTICS)
        present = {
            format_partition_name(keys, list(each.values or [])): each
            for each in self._target.get_partitions(db, self._table, names)
        }
        return [
            _settle(name, place, partition, present.get(name), snapshot)
            for name, place, partition in zip(names, places, partitions, strict=True)
        ]

    def _define(self, name: str, partition: Partition, owner: Table, snapshot: TableSnapshot) -> None:
        """Change a partition of the source into the target's form,
        with the write id of its statistics if the snapshot contains it.
        """
        assert snapshot.table is not None
        location = map_partition_location(partition.sd.location, snapshot.table, name, owner, self._policy)
        to_target_partition(self._schemas.place(partition), self._policy, location)
        partition.parameters = dict(partition.parameters or {})
        remove_unreliable([partition], owner, self._source)
        partition.writeId = adjust_statistics(partition.parameters, partition.writeId, snapshot.valid)

    def complete(
        self, partitions: Iterable[TargetPartition], with_statistics: Collection[str], snapshot: TableSnapshot
    ) -> None:
        """Write the definitions that the target does not have, and those of partitions with new column
        statistics.

        Partitions with a write id and those without need separate calls, because Hive rejects different write
        ids in one call. Partitions with new statistics but no write id in their definition need a third call:
        they keep the write id of the snapshot, under which their statistics were written.
        """
        with_id: list[Partition] = []
        without_id: list[Partition] = []
        with_that_of_statistics: list[Partition] = []
        for each in partitions:
            if each.is_stored and each.name not in with_statistics:
                continue
            if each.definition.writeId is not None:
                with_id.append(each.definition)
            elif each.name in with_statistics:
                with_that_of_statistics.append(each.definition)
            else:
                without_id.append(each.definition)
        if with_id:
            valid = ValidWriteIds(f"{self._policy.target_db}.{self._table}", snapshot.write_id).format()
            self._alter(with_id, snapshot.write_id, valid)
        for group in (without_id, with_that_of_statistics):
            if group:
                self._alter(group, None, None)

    def _alter(self, partitions: Sequence[Partition], write_id: int | None, valid: str | None) -> None:
        self._target.alter_partitions(
            self._policy.target_db,
            self._table,
            partitions,
            write_id=write_id,
            valid_write_ids=valid,
            environment=KEEP_STATISTICS,
        )


def _settle(
    name: str,
    source_location: str | None,
    definition: Partition,
    present: Partition | None,
    snapshot: TableSnapshot,
) -> TargetPartition:
    """Complete the definition of a partition by facts known once it exists.

    Statistics that hold for the snapshot get its write id instead of theirs: readers only test whether it is
    valid, and one call can alter the partitions.
    """
    definition.sd.location = None if present is None else present.sd.location
    if definition.writeId is not None:
        definition.writeId = snapshot.write_id
    stored = present is not None and is_same_definition(definition, present)
    return TargetPartition(name, source_location, definition, stored)


def is_same_definition(wanted: Partition, present: Partition) -> bool:
    """Whether a partition of the target is as required, except for the times that its metastore sets.

    These are the time of its creation, which is the time at which it was added, and the time of its last
    change if ``wanted`` has none.
    """
    return (
        _identify(wanted) == _identify(present)
        and _read_parameters(wanted, wanted) == _read_parameters(present, wanted)
        and wanted.sd == present.sd
    )


def _identify(partition: Partition) -> tuple[object, ...]:
    """Return the fields to compare, except those that have their own comparison; Hive returns a write id
    below 1 if there is none.
    """
    return (partition.values, partition.lastAccessTime or 0, max(partition.writeId or 0, 0))


def _read_parameters(partition: Partition, wanted: Partition) -> dict[str, str]:
    parameters = partition.parameters or {}
    if DDL_TIME in (wanted.parameters or {}):
        return parameters
    return {key: value for key, value in parameters.items() if key != DDL_TIME}
