"""Requests and responses about tables and partitions."""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from handlers.structs.constraints import (
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
)
from handlers.structs.objects import EnvironmentContext, FieldSchema, ObjectDictionary, Partition, Table
from handlers.structs.struct import Struct, i32, i64, resolve


class ClientCapability(IntEnum):
    """Features of Hive 2 and 3 clients."""

    TEST_CAPABILITY = 1
    INSERT_ONLY_TABLES = 2


class ClientCapabilities(Struct):
    """The features that a client of Hive 2 or 3 understands."""

    values: Annotated[list[i32], 1]


class CreateTableRequest(Struct):
    """Creates a table with its constraints."""

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
    """Requests a table."""

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
    """Which fields of the objects to return."""

    fieldList: Annotated[list[str] | None, 1] = None
    includeParamKeyPattern: Annotated[str | None, 2] = None
    excludeParamKeyPattern: Annotated[str | None, 3] = None


class GetTablesRequest(Struct):
    """Requests several tables of one database."""

    dbName: Annotated[str, 1]
    tblNames: Annotated[list[str] | None, 2] = None
    capabilities: Annotated[ClientCapabilities | None, 3] = None
    catName: Annotated[str | None, 4] = None
    processorCapabilities: Annotated[list[str] | None, 5] = None
    processorIdentifier: Annotated[str | None, 6] = None
    projectionSpec: Annotated[GetProjectionsSpec | None, 7] = None
    tablesPattern: Annotated[str | None, 8] = None


class GetTablesResult(Struct):
    """Those of the requested objects that exist."""

    tables: Annotated[list[Table], 1]


class AlterTableRequest(Struct):
    """Changes a table; with ``expectedParameterKey``, only if that parameter still has the expected value."""

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


class AddPartitionsRequest(Struct):
    """Adds partitions of one table."""

    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]
    parts: Annotated[list[Partition], 3]
    ifNotExists: Annotated[bool, 4]
    needResult: Annotated[bool | None, 5] = None
    catName: Annotated[str | None, 6] = None
    validWriteIdList: Annotated[str | None, 7] = None
    skipColumnSchemaForPartition: Annotated[bool | None, 8] = None
    partitionColSchema: Annotated[list[FieldSchema] | None, 9] = None
    environmentContext: Annotated[EnvironmentContext | None, 10] = None


class AddPartitionsResult(Struct):
    """The added partitions, if ``needResult`` was set."""

    partitions: Annotated[list[Partition] | None, 1] = None
    isStatsCompliant: Annotated[bool | None, 2] = None
    partitionColSchema: Annotated[list[FieldSchema] | None, 3] = None


class GetPartitionsByNamesRequest(Struct):
    """Requests partitions by name."""

    db_name: Annotated[str, 1]
    tbl_name: Annotated[str, 2]
    names: Annotated[list[str] | None, 3] = None
    get_col_stats: Annotated[bool | None, 4] = None
    processorCapabilities: Annotated[list[str] | None, 5] = None
    processorIdentifier: Annotated[str | None, 6] = None
    engine: Annotated[str | None, 7] = None
    validWriteIdList: Annotated[str | None, 8] = None
    getFileMetadata: Annotated[bool | None, 9] = None
    id: Annotated[i64 | None, 10] = None
    skipColumnSchemaForPartition: Annotated[bool | None, 11] = None
    includeParamKeyPattern: Annotated[str | None, 12] = None
    excludeParamKeyPattern: Annotated[str | None, 13] = None


class GetPartitionsByNamesResult(Struct):
    """Those of the requested objects that exist."""

    partitions: Annotated[list[Partition], 1]
    dictionary: Annotated[ObjectDictionary | None, 2] = None


class AlterPartitionsRequest(Struct):
    """Changes partitions of one table."""

    catName: Annotated[str | None, 1] = None
    dbName: Annotated[str, 2]
    tableName: Annotated[str, 3]
    partitions: Annotated[list[Partition], 4]
    environmentContext: Annotated[EnvironmentContext | None, 5] = None
    writeId: Annotated[i64 | None, 6] = None
    validWriteIdList: Annotated[str | None, 7] = None
    skipColumnSchemaForPartition: Annotated[bool | None, 8] = None
    partitionColSchema: Annotated[list[FieldSchema] | None, 9] = None


class AlterPartitionsResponse(Struct):
    """Empty."""


class RenamePartitionRequest(Struct):
    """Changes a partition's values."""

    catName: Annotated[str | None, 1] = None
    dbName: Annotated[str, 2]
    tableName: Annotated[str, 3]
    partVals: Annotated[list[str], 4]
    newPart: Annotated[Partition, 5]
    validWriteIdList: Annotated[str | None, 6] = None
    txnId: Annotated[i64 | None, 7] = None
    clonePart: Annotated[bool | None, 8] = None


class RenamePartitionResponse(Struct):
    """Empty."""


class DropPartitionsExpr(Struct):
    """A serialized filter."""

    expr: Annotated[bytes, 1]
    partArchiveLevel: Annotated[i32 | None, 2] = None


class RequestPartsSpec(Struct):
    """A union: names or filters."""

    names: Annotated[list[str] | None, 1] = None
    exprs: Annotated[list[DropPartitionsExpr] | None, 2] = None


class DropPartitionsRequest(Struct):
    """Drops partitions of one table."""

    dbName: Annotated[str, 1]
    tblName: Annotated[str, 2]
    parts: Annotated[RequestPartsSpec, 3]
    deleteData: Annotated[bool | None, 4] = None
    ifExists: Annotated[bool | None, 5] = None
    ignoreProtection: Annotated[bool | None, 6] = None
    environmentContext: Annotated[EnvironmentContext | None, 7] = None
    needResult: Annotated[bool | None, 8] = None
    catName: Annotated[str | None, 9] = None
    skipColumnSchemaForPartition: Annotated[bool | None, 10] = None


class DropPartitionsResult(Struct):
    """The dropped partitions, if ``needResult`` was set."""

    partitions: Annotated[list[Partition] | None, 1] = None


resolve()
