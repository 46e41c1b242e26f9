"""The locations in a definition: the source directories of a table's rows, and the form of all locations on
the target.

A table or partition names more directories than its own. Spark keeps the directory of a table in the serde
parameter ``path`` and reads only that (``HiveExternalCatalog``); list bucketing has a directory for each
skewed value; other programs keep locations in their own properties. Nothing on the target may name a
directory of the source, because a reader would read it, and a writer would write there after a promotion. The
rule for a property whose value is a location:

1. The table's own directory, or one below it, gets the same place below the target's directory.
2. ``path`` may also be above the directory of a partition, which then is the same distance above the
   target's.
3. Any other ``path`` is placed below ``external_base``, as the locations of external tables are. Without a
   base it is left out.
4. Any other property outside of the table's directory stays: it names something that replication does not
   own, such as an origin.

If the target chooses the location and it is not known yet, the properties of 1 and 2 are left out until it
is.

The location and ``path`` of a table of Spark's data sources (``using parquet``) are usually the same
directory. They differ

* for an external table of a format that Hive cannot read (csv, json, text): its location is a placeholder
  that never exists;
* after Hive has moved or renamed the table, or Spark has renamed one that a metastore of Hive 4 made
  external. Hive then reads one directory, and Spark the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, TypeVar

from handlers.files.paths import Location, parse_location
from handlers.structs.objects import Partition, Table
from state.errors import UnsafePath


PROVIDER: Final = "spark.sql.sources.provider"
"""Property of a table of one of Spark's data sources, with the name or the class of the source."""
CREATED_BY_SPARK: Final = "spark.sql.create.version"
"""Property of everything that Spark creates, with its version."""
PLACEHOLDER: Final = "-__PLACEHOLDER__"
"""How the location ends that Spark gives a table if it cannot give it the real one."""


def is_of_spark(table: Table) -> bool:
    """Whether Spark has created a table with rows, of Hive's formats or of Spark's."""
    parameters = table.parameters or {}
    return table.tableType in {"EXTERNAL_TABLE", "MANAGED_TABLE"} and (
        CREATED_BY_SPARK in parameters or PROVIDER in parameters
    )


def find_spark_path(table: Table) -> Location | None:
    """Return the directory that Spark reads if it is not the table's location; raise UnsafePath."""
    serde = table.sd.serdeInfo
    if serde is None or not serde.parameters or PROVIDER not in (table.parameters or {}):
        return None
    value = next((value for key, value in serde.parameters.items() if key.lower() == "path"), None)
    if value is None:
        return None
    root = None if table.sd.location is None else parse_location(table.sd.location)
    path = resolve_location(value, root)
    return None if path == root else path


def has_placeholder(table: Table) -> bool:
    """Whether Spark gave the table a location without rows."""
    return find_spark_path(table) is not None and (table.sd.location or "").rstrip("/").endswith(PLACEHOLDER)


def list_row_directories(table: Table) -> tuple[str, ...]:
    """Return the directories of a table, except those of its partitions; the first one usually exists."""
    path, location = find_spark_path(table), table.sd.location
    if path is None:
        return () if location is None else (location,)
    return (str(path),) if location is None or has_placeholder(table) else (location, str(path))


PATHS: Final = frozenset({"path", "basepath"})
"""Options of Spark with the directory that it reads, in lower case: Spark ignores the case of options."""
_LIKE_LOCATION: Final = re.compile(r"(?:[A-Za-z][A-Za-z0-9+.-]*:)?/[^/]|[A-Za-z][A-Za-z0-9+.-]*://")


def place_below(base: str, source_location: str) -> str:
    """Return the place below ``base`` of a location at the source; raise UnsafePath."""
    return base.rstrip("/") + "/" + parse_location(source_location).path.strip("/")


def resolve_location(value: str, owner: Location | None) -> Location | None:
    """Return the location that a property names; None if its value is not a location.

    A location without a scheme is on the file system of ``owner``. Raises UnsafePath for a location that is
    not a safe path.
    """
    if not _LIKE_LOCATION.match(value):
        return None
    at = parse_location(value)
    return Location(owner.scheme, owner.authority, at.path) if owner and value.startswith("/") else at


Item = TypeVar("Item", Table, Partition)


class Change(Protocol):
    """A function that returns the new value of a location; ``is_path`` marks the directory that Spark
    reads.
    """

    def __call__(self, at: Location, *, is_path: bool) -> str | None:
        """Return the new value of the property; None if left out."""


@dataclass(frozen=True, slots=True)
class Relocation:
    """How the locations of one table or partition change."""

    source: Location | None
    """The item's directory at the source."""
    target: str | None
    """The item's directory on the target; None if not known yet."""
    base: str | None
    """``external_base`` of the policy."""

    def move(self, at: Location, *, is_path: bool = False) -> str | None:
        """Return the place of a location on the target; None if it has none."""
        if self.source is None or self.target is None:
            return None
        if self.source.contains(at):
            return self.target.rstrip("/") + at.path[len(self.source.path.rstrip("/")) :]
        if not is_path:
            return None
        if at.contains(self.source):
            between = self.source.path[len(at.path.rstrip("/")) :]
            if self.target.rstrip("/").endswith(between):
                return self.target.rstrip("/").removesuffix(between)
        if self.base is not None and self.target.startswith(f"{self.base.rstrip('/')}/"):
            return place_below(self.base, str(at))
        return None


def relocate_table(table: Table, location: str | None, base: str | None) -> None:
    """Move all locations of a table of the source to those that it has on the target, at ``location``."""
    _relocate(table, location, base)


def relocate_partition(partition: Partition, location: str | None, base: str | None) -> None:
    """Move all locations of a partition of the source to those that it has on the target, at ``location``."""
    _relocate(partition, location, base)


def names_locations(item: Table | Partition) -> bool:
    """Whether a property is a location, or skewed values have directories; otherwise the caller need not
    look at the item's own location.
    """
    skewed = item.sd.skewedInfo
    if skewed is not None and skewed.skewedColValueLocationMaps:
        return True
    return any(
        _LIKE_LOCATION.match(value) for each in _list_parameters(item) for value in (each or {}).values()
    )


def _list_parameters(item: Table | Partition) -> tuple[Mapping[str, str] | None, ...]:
    storage = item.sd
    serde = storage.serdeInfo
    return item.parameters, storage.parameters, None if serde is None else serde.parameters


def _relocate(item: Table | Partition, location: str | None, base: str | None) -> None:
    storage = item.sd
    if names_locations(item):
        source = None if storage.location is None else parse_location(storage.location)
        relocation = Relocation(source, location, base)
        change_properties(item, source, relocation.move)
        skewed = storage.skewedInfo
        if skewed is not None and skewed.skewedColValueLocationMaps:
            skewed.skewedColValueLocationMaps = _move_skewed(skewed.skewedColValueLocationMaps, relocation)
    storage.location = location


def describe_locations(item: Item, base: str | None, *, at_source: bool) -> Item:
    """Return a table or partition whose properties are equal on both sides if the target has the source's
    properties with the locations moved.

    Describes locations in relation to the item's own location. ``base`` is given for an item that is below
    ``external_base`` on the target.
    """
    if not names_locations(item):
        return item
    source = None if item.sd.location is None else parse_location(item.sd.location)

    def describe(at: Location, *, is_path: bool) -> str | None:  # noqa: ARG001 - part of the protocol
        if source is not None and source.contains(at):
            return f"DIRECTORY{at.path[len(source.path.rstrip('/')) :]}"
        if source is not None and at.contains(source):
            return "DIRECTORY" + "/.." * source.path[len(at.path.rstrip("/")) :].count("/")
        if not at_source:
            return str(at)
        return None if base is None else str(parse_location(place_below(base, str(at))))

    described = item.copy()
    change_properties(described, source, describe)
    return described


def _move_skewed(places: Mapping[tuple[str, ...], str], relocation: Relocation) -> dict[tuple[str, ...], str]:
    """Return the directories of skewed values that are below the source's; file systems do not matter."""
    source, moved = relocation.source, {}
    for values, place in places.items():
        path = parse_location(place).path
        at = None if source is None else relocation.move(Location(source.scheme, source.authority, path))
        if at is not None:
            moved[values] = at
    return moved


def change_properties(item: Table | Partition, source: Location | None, change: Change) -> None:
    """Apply ``change`` to each ``path``,
    and to each property with a location that is not outside of ``source``.

    A property for which it returns None is left out. Raises UnsafePath for a ``path`` that is not a safe
    path.
    """
    item.parameters = _change(item.parameters, source, change)
    item.sd.parameters = _change(item.sd.parameters, source, change)
    if item.sd.serdeInfo is not None:
        item.sd.serdeInfo.parameters = _change(item.sd.serdeInfo.parameters, source, change)


def _change(
    parameters: Mapping[str, str] | None, source: Location | None, change: Change
) -> dict[str, str] | None:
    if parameters is None:
        return None
    changed: dict[str, str] = {}
    for key, value in parameters.items():
        is_path = key.lower() in PATHS
        at = _find_location(value, source, is_path=is_path)
        if at is None or not (is_path or (source is not None and source.contains(at))):
            changed[key] = value
        elif (place := change(at, is_path=is_path)) is not None:
            changed[key] = place
    return changed


def _find_location(value: str, source: Location | None, *, is_path: bool) -> Location | None:
    try:
        return resolve_location(value, source)
    except UnsafePath:
        if is_path:
            raise
        return None
