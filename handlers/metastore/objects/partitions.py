"""Partitions: lookups, changes, renames and drops.

Lookups and additions of many partitions have batches, so that the metastore answers each in bounded time and
memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import NoneType
from typing import Final

from handlers.metastore.calls import V4_0, Call, PlainCall
from handlers.metastore.objects.tables import to_environment
from handlers.metastore.session import CATALOG, Session
from handlers.structs.exceptions import (
    AlreadyExistsException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
)
from handlers.structs.objects import EnvironmentContext, Partition
from handlers.structs.table_requests import (
    AddPartitionsRequest,
    AddPartitionsResult,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    DropPartitionsRequest,
    DropPartitionsResult,
    GetPartitionsByNamesRequest,
    GetPartitionsByNamesResult,
    RenamePartitionRequest,
    RenamePartitionResponse,
    RequestPartsSpec,
)
from state.errors import NotFound
from state.pieces import in_pieces


BATCH: Final = 500
"""Partitions per call. At about 2 KB each, a batch has about 1 MB and takes about 100 ms."""

_ALL: Final = -1
_NO_WRITE_ID: Final = -1
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
_DROP: Final = PlainCall("drop_partition", bool, changes=True)
_ADD: Final = Call(
    "add_partitions_req",
    {"request": AddPartitionsRequest},
    AddPartitionsResult,
    (InvalidObjectException, AlreadyExistsException, MetaException),
    changes=True,
)
_ALTER: Final = Call(
    "alter_partitions_req",
    {"req": AlterPartitionsRequest},
    AlterPartitionsResponse,
    (InvalidOperationException, MetaException),
    changes=True,
    since=V4_0,
)
_ALTER_BEFORE_4: Final = Call(
    "alter_partitions_with_environment_context",
    {
        "db_name": str,
        "tbl_name": str,
        "new_parts": list[Partition],
        "environment_context": EnvironmentContext,
    },
    NoneType,
    (InvalidOperationException, MetaException),
    changes=True,
)
_RENAME: Final = Call(
    "rename_partition_req",
    {"req": RenamePartitionRequest},
    RenamePartitionResponse,
    (InvalidOperationException, MetaException),
    changes=True,
    since=V4_0,
)
_RENAME_BEFORE_4: Final = Call(
    "rename_partition",
    {"db_name": str, "tbl_name": str, "part_vals": list[str], "new_part": Partition},
    NoneType,
    (InvalidOperationException, MetaException),
    changes=True,
)
_DROP_MANY: Final = Call(
    "drop_partitions_req",
    {"req": DropPartitionsRequest},
    DropPartitionsResult,
    (NoSuchObjectException, MetaException),
    changes=True,
)


class PartitionCalls(Session):
    """Calls about partitions."""

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

        Without columns, which Hive can omit since 4.1, the partitions of a wide table arrive five times
        faster.
        """
        partitions: list[Partition] = []
        for piece in in_pieces(names, BATCH):
            some = list(piece)
            partitions += self._some_partitions(db, table, some, with_columns=with_columns)
        return partitions

    def partition_names(self, db: str, table: str, *, limit: int | None = None) -> list[str]:
        """Return the names of at most ``limit`` (up to 32,767) or all partitions, sorted by name, in a list
        that the caller may change.

        If the table does not exist, 4.2 returns an empty list, 3.1 raises InvalidRequest and 2.3 raises
        ServerFault.
        """
        return self._invoke(_NAMES, db, table, _ALL if limit is None else limit)

    def all_partitions(self, db: str, table: str) -> Iterator[Partition]:
        """Yield all partitions, fetched in batches, without those dropped in the meantime."""
        names = self.partition_names(db, table)
        for piece in in_pieces(names, BATCH):
            yield from self._some_partitions(db, table, piece)

    def _some_partitions(
        self, db: str, table: str, names: list[str], *, with_columns: bool = True
    ) -> list[Partition]:
        if self.hive_version < V4_0:
            return self._invoke(_GET_MANY_BEFORE_4, db, table, names)
        request = GetPartitionsByNamesRequest(db_name=db, tbl_name=table, names=names)
        request.skipColumnSchemaForPartition = None if with_columns else True
        request.processorCapabilities, request.processorIdentifier = self._processor()
        return self._invoke(_GET_MANY, request).partitions

    def add_partitions(
        self,
        db: str,
        table: str,
        partitions: Sequence[Partition],
        *,
        if_not_exists: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Add partitions. Existing ones stay unchanged, or raise AlreadyExists if ``if_not_exists`` is False.

        With ``if_not_exists``, it adds partitions in batches of ``BATCH``, each batch completely or not at
        all (with Derby, the server's stack overflows at some thousands). Without it, it adds all in one call,
        all or none. ``environment`` has no effect before Hive 4.0. The partitions' ``writeId`` is logged with
        the event but not stored (4.2); ``alter_partitions`` stores it.
        """
        size = BATCH if if_not_exists else max(1, len(partitions))
        for piece in in_pieces(partitions, size):
            request = AddPartitionsRequest(
                dbName=db,
                tblName=table,
                parts=list(piece),
                ifNotExists=if_not_exists,
                needResult=False,
                environmentContext=to_environment(environment),
            )
            self._invoke(_ADD, request)

    def alter_partitions(
        self,
        db: str,
        table: str,
        partitions: Sequence[Partition],
        *,
        write_id: int | None = None,
        valid_write_ids: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Replace partitions, identified by their values; raise InvalidRequest if one does not exist; no
        partition of the same request changes then.

        Without ``write_id``, each keeps its own. Hive 4.2 writes one event for each write id, and its
        transactional listener refuses a second event in one request ("Invalid attempt to overwrite a
        read-only parameter"), so each write id gets a request.
        """
        context = to_environment(environment)
        if self.hive_version < V4_0:
            self._require_hive_4_for("alter_partitions", write_id, valid_write_ids)
            self._invoke(_ALTER_BEFORE_4, db, table, list(partitions), context)
            return
        for group in [list(partitions)] if write_id is not None else _group_by_write_id(partitions):
            request = AlterPartitionsRequest(
                dbName=db,
                tableName=table,
                partitions=group,
                environmentContext=context,
                writeId=write_id,
                validWriteIdList=valid_write_ids,
            )
            self._invoke(_ALTER, request)

    def rename_partition(
        self,
        db: str,
        table: str,
        values: Sequence[str],
        renamed: Partition,
        *,
        valid_write_ids: str | None = None,
    ) -> None:
        """Replace the partition with ``values`` by ``renamed``;
        the directory of a managed partition moves.
        """
        if self.hive_version < V4_0:
            self._require_hive_4_for("rename_partition", valid_write_ids)
            self._invoke(_RENAME_BEFORE_4, db, table, list(values), renamed)
            return
        request = RenamePartitionRequest(
            # Without the catalog, 4.x answers this request (and no other) with a NullPointerException
            catName=CATALOG,
            dbName=db,
            tableName=table,
            partVals=list(values),
            newPart=renamed,
            validWriteIdList=valid_write_ids,
        )
        self._invoke(_RENAME, request)

    def drop_partition(
        self,
        db: str,
        table: str,
        values: Sequence[str],
        *,
        delete_data: bool = True,
        if_exists: bool = False,
    ) -> None:
        """Drop a partition; raise NotFound unless ``if_exists``."""
        try:
            self._invoke(_DROP, db, table, list(values), delete_data)
        except NotFound:
            if not if_exists:
                raise

    def drop_partitions(
        self,
        db: str,
        table: str,
        names: Sequence[str],
        *,
        delete_data: bool = True,
        if_exists: bool = False,
    ) -> None:
        """Drop partitions by name, ``BATCH`` in one call;
        raise NotFound if one is missing, unless ``if_exists``.

        Each batch disappears completely or not at all.
        """
        for piece in in_pieces(names, BATCH):
            request = DropPartitionsRequest(
                dbName=db,
                tblName=table,
                parts=RequestPartsSpec(names=list(piece)),
                deleteData=delete_data,
                ifExists=if_exists,
                needResult=False,
            )
            self._invoke(_DROP_MANY, request)


def _group_by_write_id(partitions: Sequence[Partition]) -> list[list[Partition]]:
    """Group the partitions as Hive does; it reads a missing write id as ``_NO_WRITE_ID``."""
    groups: dict[int, list[Partition]] = {}
    for each in partitions:
        groups.setdefault(_NO_WRITE_ID if each.writeId is None else each.writeId, []).append(each)
    return list(groups.values())
