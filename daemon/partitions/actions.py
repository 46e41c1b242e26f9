"""The actions of the API on a table's partition index, with the forms of their parameters and answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from daemon.catalog.branch import BranchAction, TableParameters


@dataclass(frozen=True)
class PartitionLoad:
    """The table whose load begins, and the event id that its index reflects until the load is complete."""

    table: str
    event_id: int


@dataclass(frozen=True)
class CheckedPartitions:
    """The differences between the index of a table and its partitions at the source."""

    table: str
    event_id: int
    drift: int
    """The number of partitions that differ."""
    compared: int
    missing_count: int
    """In the source, not in the index."""
    surplus_count: int
    """In the index, not in the source."""
    differing_count: int
    missing: list[str]
    """The first names, as in the other lists."""
    surplus: list[str]
    differing: dict[str, list[str]]
    """The fields that differ, by name of the partition."""
    source_event_id: int
    moving: bool
    """Whether the source changed during the check, which may be the only difference."""


ACTIONS: Final[Sequence[BranchAction]] = (
    BranchAction(
        "load-partitions",
        "Begin to load the partitions of a table again from the metastore; the list of tables has the "
        "progress.",
        TableParameters,
        PartitionLoad,
    ),
    BranchAction(
        "check-partitions",
        "Compare the partitions of a table with the metastore.",
        TableParameters,
        CheckedPartitions,
    ),
)
