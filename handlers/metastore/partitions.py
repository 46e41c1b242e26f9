"""Partitions: added, changed, renamed and dropped."""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.caller import CATALOG
from handlers.metastore.calls import Call, PlainCall
from handlers.metastore.generations import V4_0
from handlers.metastore.partition_lookups import BATCH, PartitionLookups
from handlers.metastore.tables import environment_of
from handlers.structs import (
    AddPartitionsRequest,
    AddPartitionsResult,
    AlreadyExistsException,
    AlterPartitionsRequest,
    AlterPartitionsResponse,
    DropPartitionsRequest,
    DropPartitionsResult,
    EnvironmentContext,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
    Partition,
    RenamePartitionRequest,
    RenamePartitionResponse,
    RequestPartsSpec,
)
from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


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


class PartitionCalls(PartitionLookups):
    """What concerns partitions."""

    def add_partitions(
        self,
        db: str,
        table: str,
        partitions: Sequence[Partition],
        *,
        if_not_exists: bool = True,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Add partitions; those that exist stay as they are, or raise AlreadyExists where ``if_not_exists`` is False.

        Those that may exist go in batches of ``BATCH``, each added whole or not at all (Derby's stack, for one, overflows
        at some thousands); without ``if_not_exists`` all go in one call, all or none. ``environment`` since Hive 4.0, ignored before. Their ``writeId`` is logged
        with the event but not stored (4.2): ``alter_partitions`` stores it.
        """
        size = BATCH if if_not_exists else max(1, len(partitions))
        for start in range(0, len(partitions), size):
            request = AddPartitionsRequest(
                dbName=db,
                tblName=table,
                parts=list(partitions[start : start + size]),
                ifNotExists=if_not_exists,
                needResult=False,
                environmentContext=environment_of(environment),
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
        """Replace partitions, found by their values; InvalidRequest where one does not exist, and then none is changed."""
        context = environment_of(environment)
        if self.generation < V4_0:
            self._refuse_before_4("alter_partitions", write_id, valid_write_ids)
            self._invoke(_ALTER_BEFORE_4, db, table, list(partitions), context)
            return
        request = AlterPartitionsRequest(
            dbName=db,
            tableName=table,
            partitions=list(partitions),
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
        """Give the partition with ``values`` the values (and all else) of ``renamed``; a managed one's directory moves."""
        if self.generation < V4_0:
            self._refuse_before_4("rename_partition", valid_write_ids)
            self._invoke(_RENAME_BEFORE_4, db, table, list(values), renamed)
            return
        request = RenamePartitionRequest(
            catName=CATALOG,  # the only request that 4.x answers with a NullPointerException without it
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
        """Drop a partition; raise NotFound, unless ``if_exists``."""
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
        """Drop partitions by name, all in one call; raise NotFound where one is missing, unless ``if_exists``."""
        request = DropPartitionsRequest(
            dbName=db,
            tblName=table,
            parts=RequestPartsSpec(names=list(names)),
            deleteData=delete_data,
            ifExists=if_exists,
            needResult=False,
        )
        self._invoke(_DROP_MANY, request)
