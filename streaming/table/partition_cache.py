"""A flat table that caches its partitions for the writer.

The writer holds the lease, so no other process changes partitions, and all changes of the writer go through
this class. Cached results therefore stay valid. A batch needs a dozen calls, each of which takes a second on
a busy metastore. If the table's version differs from the one that the writer has written, another writer held
the lease in between, and the cache is dropped.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from handlers.files.paths import Location
from state.columns.slots import Layout
from streaming.table.flat_table import FlatTable, HourPartition, TableState
from streaming.table.hours import HourColumns


class CachedTable:
    """A ``FlatTable`` that wraps another one and caches its partitions."""

    def __init__(self, inner: FlatTable) -> None:
        self._inner = inner
        self._version: int | None = None
        self._known: dict[int, HourPartition] | None = None

    @property
    def title(self) -> str:
        """``database.table``."""
        return self._inner.title

    def read(self) -> TableState:
        """Return the current state; drop the cache if another writer changed the table."""
        state = self._inner.read()
        if state.version != self._version:
            self._known = None
        self._version = state.version
        return state

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create the table."""
        return self._inner.create(layout, location=location, columns=columns, parameters=parameters)

    def alter(
        self,
        old: TableState,
        layout: Layout | None = None,
        *,
        parameters: Mapping[str, str | None] | None = None,
        proven: Collection[int] = (),
        narrowed: Collection[int] = (),
    ) -> TableState:
        """Change the table."""
        altered = self._inner.alter(old, layout, parameters=parameters, proven=proven, narrowed=narrowed)
        if old.version != self._version:
            self._known = None
        self._version = altered.version
        return altered

    def hours(self) -> Sequence[int]:
        """Return the hours from the cache."""
        return sorted(self._partitions())

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return partitions from the cache or, with ``with_columns``, from the metastore."""
        if with_columns:
            return self._inner.partitions(hours)
        cached = self._partitions()
        return [cached[hour] for hour in sorted(cached if hours is None else set(hours)) if hour in cached]

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Add an hour."""
        return self._remember(self._inner.add_hour(hour, version=version, parameters=parameters))

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Switch an hour."""
        return self._remember(self._inner.switch_hour(hour, location, parameters))

    def set_hour_parameters(self, hour: int, parameters: Mapping[str, str | None]) -> HourPartition:
        """Change an hour's parameters."""
        return self._remember(self._inner.set_hour_parameters(hour, parameters))

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop hours."""
        self._known = None
        self._inner.drop_hours(hours)

    def forget(self) -> None:
        """Drop the cache: the next call queries the metastore."""
        self._known = None

    def forget_if_changed(self) -> None:
        """Drop the cache if the metastore has other hours, because users may drop partitions."""
        if self._known is not None and sorted(self._known) != list(self._inner.hours()):
            self._known = None

    def _partitions(self) -> dict[int, HourPartition]:
        if self._known is None:
            self._known = {each.hour: each for each in self._inner.partitions(with_columns=False)}
        return self._known

    def _remember(self, partition: HourPartition) -> HourPartition:
        if self._known is not None:
            self._known[partition.hour] = partition
        return partition
