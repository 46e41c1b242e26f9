"""The target's tables and partitions as last seen: where they lie, and of what kind they are.

Dispatcher asks for a place at every file and for a kind at every event; the target's metastore answers in milliseconds, which is
too long for each. Nobody else writes to a replica, so what was seen stays true until replay itself changes it, and every
change goes through ``forget``.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final

from state.errors import TargetDiverged


if TYPE_CHECKING:
    from handlers.metastore.client import Metastore
    from handlers.replication.policy import Policy
    from handlers.structs.objects import Table


_PARTITIONS_MAX: Final = 50_000
_TABLES_MAX: Final = 5_000


class TableCache:
    """Bounded caches of target tables and partition places; names are those of the target's (and source's) table."""

    def __init__(self, target: Metastore, policy: Policy) -> None:
        self._target = target
        self._db = policy.target_db
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._places: dict[str, dict[str, str]] = {}

    def table(self, name: str) -> Table:
        """Return the target's table (not to be changed); raise NotFound where there is none."""
        table = self._tables.get(name)
        if table is None:
            table = self._target.get_table(self._db, name)
            self._tables[name] = table
            if len(self._tables) > _TABLES_MAX:
                self._tables.popitem(last=False)
        return table

    def location(self, name: str, partition_name: str = "") -> str:
        """Return the URI of the table's, or the partition's, directory; raise NotFound where there is none."""
        if not partition_name:
            return _location(self.table(name).sd, name)
        place = self._places.get(name, {}).get(partition_name)
        if place is None:
            partition = self._target.get_partition_by_name(self._db, name, partition_name)
            place = _location(partition.sd, f"{name}/{partition_name}")
            self._remember(name, partition_name, place)
        return place

    def _remember(self, name: str, partition_name: str, place: str) -> None:
        """Note where a partition lies; a table with more partitions than the bound starts afresh."""
        places = self._places.setdefault(name, {})
        if len(places) >= _PARTITIONS_MAX:
            places.clear()
        places[partition_name] = place

    def forget(self, name: str) -> None:
        """Drop what was seen of a table that is about to change."""
        self._tables.pop(name, None)
        self._places.pop(name, None)

    def forget_partition(self, name: str, partition_name: str) -> None:
        """Drop what was seen of one partition."""
        self._places.get(name, {}).pop(partition_name, None)

    def clear(self) -> None:
        """Drop everything, as after a restart."""
        self._tables.clear()
        self._places.clear()


def _location(sd: object, name: str) -> str:
    location = getattr(sd, "location", None)
    if not isinstance(location, str):
        raise TargetDiverged("a table of the target has no place", table=name)
    return location
