"""Partitions looked up: one by its values or its name, many in batches that the metastore answers in bounded time and memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from handlers.metastore.caller import Caller
from handlers.metastore.calls import Call, PlainCall
from handlers.metastore.generations import V4_0
from handlers.structs import (
    GetPartitionsByNamesRequest,
    GetPartitionsByNamesResult,
    InvalidObjectException,
    MetaException,
    NoSuchObjectException,
    Partition,
)


if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


BATCH: Final = 500
"""Partitions per call: some 2 KB each, so about 1 MB and some 100 ms."""

_ALL: Final = -1
_NAMES: Final = PlainCall("get_partition_names", list[str], changes=False)
_GET: Final = Call(
    "get_partition",
    {"db_name": str, "tbl_name": str, "part_vals": list[str]},
    Partition,
    (MetaException, NoSuchObjectException),
    changes=False,
)
_GET_BY_NAME: Final = Call(
    "get_partition_by_name",
    {"db_name": str, "tbl_name": str, "part_name": str},
    Partition,
    (MetaException, NoSuchObjectException),
    changes=False,
)
_GET_MANY: Final = Call(
    "get_partitions_by_names_req",
    {"req": GetPartitionsByNamesRequest},
    GetPartitionsByNamesResult,
    (MetaException, NoSuchObjectException, InvalidObjectException),
    changes=False,
    since=V4_0,
)
_GET_MANY_BEFORE_4: Final = Call(
    "get_partitions_by_names",
    {"db_name": str, "tbl_name": str, "names": list[str]},
    list[Partition],
    (MetaException, NoSuchObjectException, InvalidObjectException),
    changes=False,
)


class PartitionLookups(Caller):
    """What asks for partitions."""

    def get_partition(self, db: str, table: str, values: Sequence[str]) -> Partition:
        """Return a partition by its values; raise NotFound."""
        return self._invoke(_GET, db, table, list(values))

    def get_partition_by_name(self, db: str, table: str, name: str) -> Partition:
        """Return a partition by its name such as ``dt=2024-01-01/hr=5``; raise NotFound."""
        return self._invoke(_GET_BY_NAME, db, table, name)

    def get_partitions(
        self, db: str, table: str, names: Sequence[str], *, with_columns: bool = True
    ) -> list[Partition]:
        """Return those of the named partitions that exist, in any order within batches of ``BATCH``.

        Without their columns, where this Hive can leave them out (since 4.1), they come five times faster from a wide table.
        """
        found: list[Partition] = []
        for start in range(0, len(names), BATCH):
            some = list(names[start : start + BATCH])
            found += self._some_partitions(db, table, some, with_columns=with_columns)
        return found

    def partition_names(self, db: str, table: str, *, limit: int | None = None) -> list[str]:
        """Return the names of at most ``limit`` (32,767 or fewer) or all partitions, in the order of names.

        A table that does not exist: empty in 4.2, InvalidRequest in 3.1, ServerFault in 2.3.
        """
        return self._invoke(_NAMES, db, table, _ALL if limit is None else limit)

    def all_partitions(self, db: str, table: str) -> Iterator[Partition]:
        """Yield all partitions, fetched in batches; those that are dropped meanwhile are left out."""
        names = self.partition_names(db, table)
        for start in range(0, len(names), BATCH):
            yield from self._some_partitions(db, table, names[start : start + BATCH])

    def _some_partitions(
        self, db: str, table: str, names: list[str], *, with_columns: bool = True
    ) -> list[Partition]:
        if self.generation < V4_0:
            return self._invoke(_GET_MANY_BEFORE_4, db, table, names)
        request = GetPartitionsByNamesRequest(db_name=db, tbl_name=table, names=names)
        request.skipColumnSchemaForPartition = None if with_columns else True
        request.processorCapabilities, request.processorIdentifier = self._processor()
        return self._invoke(_GET_MANY, request).partitions
