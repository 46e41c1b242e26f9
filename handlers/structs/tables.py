"""Requests and answers about tables."""
# ruff: noqa: N815, TC001 - field names are those of Hive's interface; annotations are read at run time

from __future__ import annotations

from typing import Annotated

from handlers.structs.constraints import (
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
)
from handlers.structs.objects import EnvironmentContext, Table
from handlers.structs.struct import Struct
from handlers.structs.wire import i32, i64


class ClientCapabilities(Struct):
    """What a client of Hive 2 and 3 understands."""

    values: Annotated[list[i32], 1]


class CreateTableRequest(Struct):
    """Creates a table, also a transactional one, with its constraints."""

    table: Annotated[Table, 1]
    envContext: Annotated[EnvironmentContext | None, 2] = None
    primaryKeys: Annotated[list[SQLPrimaryKey] | None, 3] = None
    foreignKeys: Annotated[list[SQLForeignKey] | None, 4] = None
    uniqueConstraints: Annotated[list[SQLUniqueConstraint] | None, 5] = None
    notNullConstraints: Annotated[list[SQLNotNullConstraint] | None, 6] = None
    defaultConstraints: Annotated[list[SQLDefaultConstraint] | None, 7] = None
    checkConstraints: Annotated[list[SQLCheckConstraint] | None, 8] = None
    processorCapabilities: Annotated[list[str] | None, 9] = None
    processorIdentifier: Annotated[str | None, 10] = None


class GetTableRequest(Struct):
    """Asks for a table."""

    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]
    capabilities: Annotated[ClientCapabilities | None, 3] = None
    catName: Annotated[str | None, 4] = None
    validWriteIdList: Annotated[str | None, 6] = None
    getColumnStats: Annotated[bool | None, 7] = None
    processorCapabilities: Annotated[list[str] | None, 8] = None
    processorIdentifier: Annotated[str | None, 9] = None
    engine: Annotated[str | None, 10] = None
    id: Annotated[i64 | None, 11] = None


class GetTableResult(Struct):
    """The table."""

    table: Annotated[Table, 1]
    isStatsCompliant: Annotated[bool | None, 2] = None


class GetProjectionsSpec(Struct):
    """Which fields of the objects are wanted."""

    fieldList: Annotated[list[str] | None, 1] = None
    includeParamKeyPattern: Annotated[str | None, 2] = None
    excludeParamKeyPattern: Annotated[str | None, 3] = None


class GetTablesRequest(Struct):
    """Asks for several tables of one database."""

    dbName: Annotated[str, 1]
    tblNames: Annotated[list[str] | None, 2] = None
    capabilities: Annotated[ClientCapabilities | None, 3] = None
    catName: Annotated[str | None, 4] = None
    processorCapabilities: Annotated[list[str] | None, 5] = None
    processorIdentifier: Annotated[str | None, 6] = None
    projectionSpec: Annotated[GetProjectionsSpec | None, 7] = None
    tablesPattern: Annotated[str | None, 8] = None


class GetTablesResult(Struct):
    """Those that exist."""

    tables: Annotated[list[Table], 1]


class AlterTableRequest(Struct):
    """Changes a table; with ``expectedParameterKey`` only if that parameter still has the expected value."""

    catName: Annotated[str | None, 1] = None
    dbName: Annotated[str, 2]
    tableName: Annotated[str, 3]
    table: Annotated[Table, 4]
    environmentContext: Annotated[EnvironmentContext | None, 5] = None
    writeId: Annotated[i64 | None, 6] = None
    validWriteIdList: Annotated[str | None, 7] = None
    processorCapabilities: Annotated[list[str] | None, 8] = None
    processorIdentifier: Annotated[str | None, 9] = None
    expectedParameterKey: Annotated[str | None, 10] = None
    expectedParameterValue: Annotated[str | None, 11] = None


class AlterTableResponse(Struct):
    """Empty."""


class TruncateTableRequest(Struct):
    """Truncates a table or some of its partitions."""

    dbName: Annotated[str, 1]
    tableName: Annotated[str, 2]
    partNames: Annotated[list[str] | None, 3] = None
    writeId: Annotated[i64 | None, 4] = None
    validWriteIdList: Annotated[str | None, 5] = None
    environmentContext: Annotated[EnvironmentContext | None, 6] = None


class TruncateTableResponse(Struct):
    """Empty."""
