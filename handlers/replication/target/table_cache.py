"""Cache of the target's tables and of partition locations.

Replay needs a location for every file and the kind of the table for every event. A call to the target's
metastore takes milliseconds, which is too long for each of them. No one else writes to a replica, so a cached
object stays correct until replay itself changes it, and every such change calls ``forget`` first.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from handlers.metastore.client import Metastore
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import format_partition_name, partition_key_names
from handlers.structs.objects import Table
from state.errors import TargetDiverged


_PARTITIONS_MAX: Final = 100_000
"""Cached locations of partitions, of all tables together: about 30 MB."""
_TABLES_MAX: Final = 5_000


class TableCache:
    """Bounded caches by table name, which is the same on source and target."""

    def __init__(self, target: Metastore, policy: Policy) -> None:
        self._target = target
        self._db = policy.target_db
        self._tables: OrderedDict[str, Table] = OrderedDict()
        self._locations: dict[str, dict[str, str]] = {}
        self._count = 0
        """At least as many as there are cached locations."""

    def table(self, name: str) -> Table:
        """Return the target's table, which the caller must not change; raise NotFound if there is none."""
        table = self._tables.get(name)
        if table is None:
            table = self._target.get_table(self._db, name)
            self.put(name, table)
        return table

    def peek(self, name: str) -> Table | None:
        """Return the table if it is cached, without a call."""
        return self._tables.get(name)

    def put(self, name: str, table: Table) -> None:
        """Cache a table as the target has it, without reading it."""
        self._tables[name] = table
        if len(self._tables) > _TABLES_MAX:
            self._tables.popitem(last=False)

    def location(self, name: str, partition_name: str = "") -> str:
        """Return the URI of the directory of a table or partition; raise NotFound if there is none."""
        if not partition_name:
            return _require_location(self.table(name).sd, name)
        location = self._locations.get(name, {}).get(partition_name)
        if location is None:
            partition = self._target.get_partition_by_name(self._db, name, partition_name)
            location = _require_location(partition.sd, f"{name}/{partition_name}")
            self._remember(name, partition_name, location)
        return location

    def knows_partition(self, name: str, partition_name: str) -> bool:
        """Whether ``location`` can answer from the cache."""
        return partition_name in self._locations.get(name, {})

    def locations(self, name: str, partition_names: Sequence[str]) -> dict[str, str]:
        """Return the URIs of the named partitions that exist; one call reads all that are not cached."""
        cached = self._locations.get(name, {})
        uris = {each: cached[each] for each in partition_names if each in cached}
        missing = [each for each in partition_names if each not in cached]
        keys = partition_key_names(self.table(name)) if missing else []
        for partition in self._target.get_partitions(self._db, name, missing) if missing else ():
            partition_name = format_partition_name(keys, list(partition.values or []))
            uris[partition_name] = _require_location(partition.sd, f"{name}/{partition_name}")
            self._remember(name, partition_name, uris[partition_name])
        return uris

    def _remember(self, name: str, partition_name: str, location: str) -> None:
        """Cache the location of a partition; a full cache starts again empty."""
        if self._count >= _PARTITIONS_MAX:
            self._locations.clear()
            self._count = 0
        self._locations.setdefault(name, {})[partition_name] = location
        self._count += 1

    def forget(self, name: str) -> None:
        """Remove a table that is about to change, with its partitions."""
        self._tables.pop(name, None)
        self._locations.pop(name, None)

    def forget_partitions(self, name: str) -> None:
        """Remove the partitions of a table."""
        self._locations.pop(name, None)

    def forget_partition(self, name: str, partition_name: str) -> None:
        """Remove one partition."""
        self._locations.get(name, {}).pop(partition_name, None)

    def clear(self) -> None:
        """Remove everything, as after a restart."""
        self._tables.clear()
        self._locations.clear()
        self._count = 0


def _require_location(sd: object, name: str) -> str:
    location = getattr(sd, "location", None)
    if not isinstance(location, str):
        raise TargetDiverged("a table of the target has no location", table=name)
    return location
