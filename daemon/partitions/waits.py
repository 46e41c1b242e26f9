"""Waiting until a table has a partition, as the partition index knows it (``daemon.waits.conditions``).

It calls no metastore: the index follows the events of the source.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from urllib.parse import unquote

from daemon.catalog.branch import OpenSource
from daemon.catalog.opening import projection_name
from daemon.partitions.answers import PartitionAnswers
from daemon.waits.conditions import Reached, WaitKind, WaitParameters
from state.errors import BadInput, NotFound
from state.partitions.filters.dialect import HIVE_4


@dataclass(frozen=True, kw_only=True)
class PartitionParameters(WaitParameters):
    """A partition to wait for."""

    partition: str
    """Wait until 'table' has this partition: dt=2024-01-01/hr=5."""
    table: str
    """The table of 'partition' or 'range', as db.table."""
    source: str | None = None
    """Name of the source, if several have the table."""


@dataclass(frozen=True, slots=True)
class PartitionExists:
    """The condition that a partition exists (``daemon.waits.conditions.Condition``)."""

    answers: PartitionAnswers
    sources: tuple[str, ...]
    """Those whose catalogs can make it true."""
    source: str | None
    table: str
    partition: str

    @property
    def projections(self) -> Collection[str]:
        """The projections of the catalogs."""
        return [projection_name(source) for source in self.sources]

    def check(self) -> Reached:
        """Return whether the partition exists; raise NotFound for an unknown table, BadInput."""
        may_appear = self.answers.may_appear(self.table, self.source)  # before the look, which may find it
        try:
            source, view = self.answers.find_table(self.table, self.source)
        except NotFound:
            if may_appear:
                return Reached(is_true=False, reason="the table is being loaded")
            raise
        with view.follower.snapshot() as snapshot:
            lookups = snapshot.lookups(self.table, HIVE_4)
            name = lookups.schema.name(self._values([column.name for column in lookups.schema.columns]))
            is_true = bool(lookups.by_names([name]).names())
            event_id = snapshot.event_id()
        return Reached(
            is_true=is_true,
            source=source,
            event_id=view.event_id if event_id is None else event_id,
            reason=f"the table does not have the partition yet; it is {view.state(self.table)}",
        )

    def _values(self, columns: Sequence[str]) -> list[str]:
        """Return the values in the order of the key."""
        pairs = [part.partition("=") for part in self.partition.split("/")]
        values = {unquote(name).lower(): unquote(value) for name, _, value in pairs}
        if sorted(values) != sorted(columns) or len(pairs) != len(columns):
            raise BadInput(
                "the partition does not name the partition columns of the table",
                partition=self.partition[:200],
                columns=list(columns),
            )
        return [values[column] for column in columns]


def partition_kind(sources: Sequence[OpenSource]) -> WaitKind[PartitionParameters]:
    """Return the kind of conditions about single partitions."""
    answers = PartitionAnswers(sources, lambda _: None)

    def build(given: PartitionParameters) -> PartitionExists:
        found = tuple(each.source for each in sources if given.source in {None, each.source})
        answers.open_sources(given.source)  # raises NotFound
        return PartitionExists(answers, found, given.source, given.table.lower(), given.partition)

    return WaitKind(name="partition", parameters=PartitionParameters, build=build)
