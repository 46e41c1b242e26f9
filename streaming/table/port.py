"""What the rest of ``streaming`` asks of a flat table, wherever its metastore is.

Two kinds of change, because a metastore offers two kinds of safety. The table (columns, parameters) is changed by
compare-and-set on its version: of two writers one gets ``Conflict`` and has to look again. Partitions have no such thing in any
Hive, so whoever changes them holds the writer's lease (``lease``), a parameter of the table that is itself taken by compare-and-set.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from handlers.files.paths import Location
    from state.columns.slots import Layout
    from streaming.table.hours import HourColumns
    from streaming.table.views import CompatibilityView


@dataclass(frozen=True, slots=True)
class TableState:
    """A table as it was read."""

    layout: Layout
    parameters: Mapping[str, str]
    columns: HourColumns
    location: Location

    @property
    def version(self) -> int:
        """The schema version: the layout's, and the value of ``tideline.schema_version``."""
        return self.layout.version


@dataclass(frozen=True, slots=True)
class HourPartition:
    """A partition: one hour of the table."""

    hour: int
    """Seconds since 1970 at its start."""
    values: tuple[str, ...]
    location: Location
    parameters: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[tuple[str, str], ...] = ()
    """Names and types when its files were last switched, or when it was added. Documentation: no reader of ORC looks at them."""


class FlatTable(Protocol):
    """One flat table. Not thread-safe. All methods raise Transient where the metastore is away, NotFound without the table."""

    @property
    def title(self) -> str:
        """``database.table``."""

    def read(self) -> TableState:
        """Return the table as it stands; NotFound, or InvalidRequest where it is no flat table of Tideline's."""

    def create(
        self,
        layout: Layout,
        *,
        location: Location,
        columns: HourColumns,
        parameters: Mapping[str, str] | None = None,
    ) -> TableState:
        """Create the table, external, in ORC; AlreadyExists, or NotFound without its database."""

    def alter(
        self,
        old: TableState,
        layout: Layout | None = None,
        *,
        parameters: Mapping[str, str | None] | None = None,
        proven: Collection[int] = (),
    ) -> TableState:
        """Change the table if it still is at ``old.version``; raise Conflict where it is not, and change nothing.

        ``layout`` has a higher version; None keeps the slots under the next one. ``parameters`` are changes (None removes), all
        ``tideline.``. ``proven`` names the slots whose retained files were looked at: only those may get another key (no
        file holds a value) or turn into STRING (the files were rewritten); InvalidRequest for any other change that readers
        would see wrong values after.
        """

    def hours(self) -> Sequence[int]:
        """Return the hours that have a partition, in order. Cheap: only names travel."""

    def partitions(
        self, hours: Sequence[int] | None = None, *, with_columns: bool = False
    ) -> Sequence[HourPartition]:
        """Return the partitions of ``hours`` (None: all) that exist, in order; Inconsistent where two share a location.

        Their columns may be missing unless asked for: 100 partitions of 1,500 columns take a second with them.
        """

    def add_hour(
        self, hour: int, *, version: int = 1, parameters: Mapping[str, str] | None = None
    ) -> HourPartition:
        """Return the hour's partition, added where it is missing: directory ``v<version>``, the table's columns of now.

        The metastore counts what lies there at that moment; ``set_hour_parameters`` after the files came removes the count.
        """

    def switch_hour(
        self, hour: int, location: Location, parameters: Mapping[str, str | None]
    ) -> HourPartition:
        """Point the hour to another directory, change parameters and remove statistics, in one call of the metastore.

        (Statistics of columns, should somebody have computed them, go in a call before: without them nobody is misled.)

        The directory is another version below the hour's own and holds files directly, else InvalidRequest (Hive reads a
        missing directory, and one whose files lie deeper, as 0 rows without an error).
        """

    def set_hour_parameters(self, hour: int, parameters: Mapping[str, str | None]) -> HourPartition:
        """Change parameters of a partition (None removes), and remove its statistics; NotFound."""

    def drop_hours(self, hours: Sequence[int]) -> None:
        """Drop partitions; their files stay. Those that do not exist are no error."""

    def compatibility_view(self, name: str) -> CompatibilityView:
        """Return the view ``name`` beside the table, which need not exist yet."""
