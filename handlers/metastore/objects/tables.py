"""Tables and views."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Final

from handlers.metastore.calls import V3_1, V4_0, Call, PlainCall
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    AlreadyExistsException,
    InvalidObjectException,
    InvalidOperationException,
    MetaException,
    NoSuchObjectException,
    UnknownDBException,
)
from handlers.structs.objects import EnvironmentContext, Table
from handlers.structs.table_requests import (
    AlterTableRequest,
    AlterTableResponse,
    ClientCapabilities,
    ClientCapability,
    CreateTableRequest,
    GetTableRequest,
    GetTableResult,
    GetTablesRequest,
    GetTablesResult,
    TruncateTableRequest,
    TruncateTableResponse,
)


_NAMES: Final = PlainCall("get_all_tables", list[str], changes=False)
_DROP: Final = PlainCall("drop_table", NoneType, changes=True)
_DROP_WITH_ENVIRONMENT: Final = PlainCall("drop_table_with_environment_context", NoneType, changes=True)
_GET: Final = Call(
    "get_table_req",
    {"req": GetTableRequest},
    GetTableResult,
    (MetaException, NoSuchObjectException),
    changes=False,
)
_GET_MANY: Final = Call(
    "get_table_objects_by_name_req",
    {"req": GetTablesRequest},
    GetTablesResult,
    (MetaException, InvalidOperationException, UnknownDBException),
    changes=False,
)
_CREATE: Final = Call(
    "create_table_req",
    {"request": CreateTableRequest},
    NoneType,
    (AlreadyExistsException, InvalidObjectException, MetaException, NoSuchObjectException),
    changes=True,
    since=V4_0,
)
_CREATE_BEFORE_4: Final = Call(
    "create_table_with_environment_context",
    {"tbl": Table, "environment_context": EnvironmentContext},
    NoneType,
    (AlreadyExistsException, InvalidObjectException, MetaException, NoSuchObjectException),
    changes=True,
)
_ALTER: Final = Call(
    "alter_table_req",
    {"req": AlterTableRequest},
    AlterTableResponse,
    (InvalidOperationException, MetaException),
    changes=True,
    since=V4_0,
)
_ALTER_BEFORE_4: Final = Call(
    "alter_table_with_environment_context",
    {"dbname": str, "tbl_name": str, "new_tbl": Table, "environment_context": EnvironmentContext},
    NoneType,
    (InvalidOperationException, MetaException),
    changes=True,
)
_TRUNCATE: Final = Call(
    "truncate_table_req",
    {"req": TruncateTableRequest},
    TruncateTableResponse,
    (MetaException,),
    changes=True,
    since=V4_0,
)
_TRUNCATE_BEFORE_4: Final = Call(
    "truncate_table",
    {"dbName": str, "tableName": str, "partNames": list[str]},
    NoneType,
    (MetaException,),
    changes=True,
    since=V3_1,
)


def to_environment(properties: Mapping[str, str] | None) -> EnvironmentContext | None:
    """Return the options that accompany a call, None if there are none."""
    return EnvironmentContext(properties=dict(properties)) if properties else None


class TableCalls(Session):
    """Calls about tables and views."""

    def table_names(self, db: str) -> list[str]:
        """Return the names of all tables and views of a database; empty if the database does not exist."""
        return self._invoke(_NAMES, db)

    def get_table(self, db: str, name: str) -> Table:
        """Return a table as stored; raise NotFound."""
        request = GetTableRequest(dbName=db, tblName=name, capabilities=self._hive3_capabilities())
        request.processorCapabilities, request.processorIdentifier = self._processor()
        return self._invoke(_GET, request).table

    def get_tables(self, db: str, names: Sequence[str]) -> list[Table]:
        """Return those of the named tables that exist, in any order."""
        request = GetTablesRequest(dbName=db, tblNames=list(names), capabilities=self._hive3_capabilities())
        request.processorCapabilities, request.processorIdentifier = self._processor()
        return self._invoke(_GET_MANY, request).tables

    def create_table(self, table: Table, *, environment: Mapping[str, str] | None = None) -> None:
        """Create a table; raise AlreadyExists, or NotFound if its database is missing."""
        context = to_environment(environment)
        if self.hive_version < V4_0:
            self._invoke(_CREATE_BEFORE_4, table, context)
            return
        request = CreateTableRequest(table=table, envContext=context)
        request.processorCapabilities, request.processorIdentifier = self._processor()
        self._invoke(_CREATE, request)

    def alter_table(
        self,
        db: str,
        name: str,
        table: Table,
        *,
        write_id: int | None = None,
        valid_write_ids: str | None = None,
        environment: Mapping[str, str] | None = None,
        expected: tuple[str, str] | None = None,
    ) -> None:
        """Replace the table ``db.name`` by ``table``; a different name in ``table`` renames it.

        ``expected`` is a parameter and its value: the metastore changes the table only if it still has that
        value, and otherwise raises InvalidRequest. To keep the statistics of a transactional table, give the
        write id here and in ``table.writeId``, with a write-id list that includes it (reference:
        hive-replication.md §0c.6). Before Hive 4, these three arguments raise Unsupported.
        """
        context = to_environment(environment)
        if self.hive_version < V4_0:
            self._require_hive_4_for("alter_table", write_id, valid_write_ids, expected)
            self._invoke(_ALTER_BEFORE_4, db, name, table, context)
            return
        request = AlterTableRequest(
            dbName=db,
            tableName=name,
            table=table,
            environmentContext=context,
            writeId=write_id,
            validWriteIdList=valid_write_ids,
        )
        request.expectedParameterKey, request.expectedParameterValue = expected or (None, None)
        request.processorCapabilities, request.processorIdentifier = self._processor()
        self._invoke(_ALTER, request)

    def drop_table(
        self, db: str, name: str, *, delete_data: bool = True, environment: Mapping[str, str] | None = None
    ) -> None:
        """Drop a table; raise NotFound."""
        context = to_environment(environment)
        if context is None:
            self._invoke(_DROP, db, name, delete_data)
        else:
            self._invoke(_DROP_WITH_ENVIRONMENT, db, name, delete_data, context)

    def truncate_table(
        self,
        db: str,
        name: str,
        *,
        partition_names: Sequence[str] | None = None,
        write_id: int | None = None,
        valid_write_ids: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Truncate a table or some of its partitions (since Hive 3.1; the last three arguments since 4.0)."""
        names = None if partition_names is None else list(partition_names)
        if self.hive_version < V4_0:
            self._require_hive_4_for("truncate_table", write_id, valid_write_ids, environment)
            self._invoke(_TRUNCATE_BEFORE_4, db, name, names)
            return
        request = TruncateTableRequest(
            dbName=db,
            tableName=name,
            partNames=names,
            writeId=write_id,
            validWriteIdList=valid_write_ids,
            environmentContext=to_environment(environment),
        )
        self._invoke(_TRUNCATE, request)

    def _hive3_capabilities(self) -> ClientCapabilities | None:
        """Return the capabilities that Hive 3 requires before it returns an insert-only table."""
        if V3_1 <= self.hive_version < V4_0:
            return ClientCapabilities(values=[ClientCapability.INSERT_ONLY_TABLES])
        return None
