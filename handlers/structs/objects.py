"""The catalog's objects: databases, tables, partitions, functions and their parts.

One field number was reused: ``Table`` 16 was a catalog name in 2.3 (never set there) and has been the
metadata of a materialized view since 3.0. The later meaning is declared.
"""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from handlers.structs.statistics import ColumnStatistics
from handlers.structs.struct import Struct, i8, i32, i64, resolve


class PrincipalType(IntEnum):
    """The kind of an owner or grantee."""

    USER = 1
    ROLE = 2
    GROUP = 3


class DatabaseType(IntEnum):
    """Whether a database is local or behind a connector."""

    NATIVE = 1
    REMOTE = 2


class SerdeType(IntEnum):
    """The origin of a SerDe."""

    HIVE = 1
    SCHEMA_REGISTRY = 2


class FieldSchema(Struct):
    """A column or partition key."""

    name: Annotated[str, 1]
    type: Annotated[str, 2]
    comment: Annotated[str | None, 3] = None


class SerDeInfo(Struct):
    """The serializer and deserializer of rows."""

    name: Annotated[str | None, 1] = None
    serializationLib: Annotated[str | None, 2] = None
    parameters: Annotated[dict[str, str] | None, 3] = None
    description: Annotated[str | None, 4] = None
    serializerClass: Annotated[str | None, 5] = None
    deserializerClass: Annotated[str | None, 6] = None
    serdeType: Annotated[i32 | None, 7, SerdeType] = None


class Order(Struct):
    """One column of a sort order; ``order`` is 1 for ascending, 0 for descending."""

    col: Annotated[str, 1]
    order: Annotated[i32, 2]


class SkewedInfo(Struct):
    """Values with their own directories (list bucketing)."""

    skewedColNames: Annotated[list[str] | None, 1] = None
    skewedColValues: Annotated[list[list[str]] | None, 2] = None
    skewedColValueLocationMaps: Annotated[dict[tuple[str, ...], str] | None, 3] = None


class StorageDescriptor(Struct):
    """Columns, location, formats and buckets of stored data."""

    cols: Annotated[list[FieldSchema] | None, 1] = None
    location: Annotated[str | None, 2] = None
    inputFormat: Annotated[str | None, 3] = None
    outputFormat: Annotated[str | None, 4] = None
    compressed: Annotated[bool | None, 5] = None
    numBuckets: Annotated[i32 | None, 6] = None
    serdeInfo: Annotated[SerDeInfo | None, 7] = None
    bucketCols: Annotated[list[str] | None, 8] = None
    sortCols: Annotated[list[Order] | None, 9] = None
    parameters: Annotated[dict[str, str] | None, 10] = None
    skewedInfo: Annotated[SkewedInfo | None, 11] = None
    storedAsSubDirectories: Annotated[bool | None, 12] = None


class PrivilegeGrantInfo(Struct):
    """One granted privilege."""

    privilege: Annotated[str | None, 1] = None
    createTime: Annotated[i32 | None, 2] = None
    grantor: Annotated[str | None, 3] = None
    grantorType: Annotated[i32 | None, 4, PrincipalType] = None
    grantOption: Annotated[bool | None, 5] = None


class PrincipalPrivilegeSet(Struct):
    """Privileges by user, group and role."""

    userPrivileges: Annotated[dict[str, list[PrivilegeGrantInfo]] | None, 1] = None
    groupPrivileges: Annotated[dict[str, list[PrivilegeGrantInfo]] | None, 2] = None
    rolePrivileges: Annotated[dict[str, list[PrivilegeGrantInfo]] | None, 3] = None


class FileMetadata(Struct):
    """Cached file listings; passed on, never interpreted by Tideline."""

    type: Annotated[i8 | None, 1] = None
    version: Annotated[i8 | None, 2] = None
    data: Annotated[list[bytes] | None, 3] = None


class ObjectDictionary(Struct):
    """Values shared by the partitions of one answer; passed on, never interpreted by Tideline."""

    values: Annotated[dict[str, list[bytes]], 1]


class CreationMetadata(Struct):
    """The sources of a materialized view."""

    catName: Annotated[str, 1]
    dbName: Annotated[str, 2]
    tblName: Annotated[str, 3]
    tablesUsed: Annotated[set[str], 4]
    validTxnList: Annotated[str | None, 5] = None
    materializationTime: Annotated[i64 | None, 6] = None
    sourceTables: Annotated[list[SourceTable] | None, 7] = None


class SourceTable(Struct):
    """One source table of a materialized view."""

    table: Annotated[Table, 1]
    insertedCount: Annotated[i64, 2]
    updatedCount: Annotated[i64, 3]
    deletedCount: Annotated[i64, 4]


class Table(Struct):
    """A table or view.
    ``writeId`` is the write id of the last change to its parameters (transactional tables).
    """

    tableName: Annotated[str, 1]
    dbName: Annotated[str, 2]
    owner: Annotated[str | None, 3] = None
    createTime: Annotated[i32 | None, 4] = None
    lastAccessTime: Annotated[i32 | None, 5] = None
    retention: Annotated[i32 | None, 6] = None
    sd: Annotated[StorageDescriptor, 7]
    partitionKeys: Annotated[list[FieldSchema] | None, 8] = None
    parameters: Annotated[dict[str, str] | None, 9] = None
    viewOriginalText: Annotated[str | None, 10] = None
    viewExpandedText: Annotated[str | None, 11] = None
    tableType: Annotated[str | None, 12] = None
    privileges: Annotated[PrincipalPrivilegeSet | None, 13] = None
    temporary: Annotated[bool | None, 14] = None
    rewriteEnabled: Annotated[bool | None, 15] = None
    creationMetadata: Annotated[CreationMetadata | None, 16] = None
    catName: Annotated[str | None, 17] = None
    ownerType: Annotated[i32 | None, 18, PrincipalType] = None
    writeId: Annotated[i64 | None, 19] = None
    isStatsCompliant: Annotated[bool | None, 20] = None
    colStats: Annotated[ColumnStatistics | None, 21] = None
    accessType: Annotated[i8 | None, 22] = None
    requiredReadCapabilities: Annotated[list[str] | None, 23] = None
    requiredWriteCapabilities: Annotated[list[str] | None, 24] = None
    id: Annotated[i64 | None, 25] = None
    fileMetadata: Annotated[FileMetadata | None, 26] = None
    dictionary: Annotated[ObjectDictionary | None, 27] = None
    txnId: Annotated[i64 | None, 28] = None


class Partition(Struct):
    """A partition; ``values`` are in the order of the table's partition keys."""

    values: Annotated[list[str], 1]
    dbName: Annotated[str, 2]
    tableName: Annotated[str, 3]
    createTime: Annotated[i32 | None, 4] = None
    lastAccessTime: Annotated[i32 | None, 5] = None
    sd: Annotated[StorageDescriptor, 6]
    parameters: Annotated[dict[str, str] | None, 7] = None
    privileges: Annotated[PrincipalPrivilegeSet | None, 8] = None
    catName: Annotated[str | None, 9] = None
    writeId: Annotated[i64 | None, 10] = None
    isStatsCompliant: Annotated[bool | None, 11] = None
    colStats: Annotated[ColumnStatistics | None, 12] = None
    fileMetadata: Annotated[FileMetadata | None, 13] = None


class Database(Struct):
    """A database. ``managedLocationUri`` is the directory of its managed tables (4.x)."""

    name: Annotated[str, 1]
    description: Annotated[str | None, 2] = None
    locationUri: Annotated[str | None, 3] = None
    parameters: Annotated[dict[str, str] | None, 4] = None
    privileges: Annotated[PrincipalPrivilegeSet | None, 5] = None
    ownerName: Annotated[str | None, 6] = None
    ownerType: Annotated[i32 | None, 7, PrincipalType] = None
    catalogName: Annotated[str | None, 8] = None
    createTime: Annotated[i32 | None, 9] = None
    managedLocationUri: Annotated[str | None, 10] = None
    type: Annotated[i32 | None, 11, DatabaseType] = None
    connector_name: Annotated[str | None, 12] = None
    remote_dbname: Annotated[str | None, 13] = None


class FunctionType(IntEnum):
    """The language of a function."""

    JAVA = 1


class ResourceType(IntEnum):
    """The kind of a file that a function needs."""

    JAR = 1
    FILE = 2
    ARCHIVE = 3


class ResourceUri(Struct):
    """A file that a function needs."""

    resourceType: Annotated[i32 | None, 1, ResourceType] = None
    uri: Annotated[str | None, 2] = None


class Function(Struct):
    """A permanent function of a database."""

    functionName: Annotated[str | None, 1] = None
    dbName: Annotated[str | None, 2] = None
    className: Annotated[str | None, 3] = None
    ownerName: Annotated[str | None, 4] = None
    ownerType: Annotated[i32 | None, 5, PrincipalType] = None
    createTime: Annotated[i32 | None, 6] = None
    functionType: Annotated[i32 | None, 7, FunctionType] = None
    resourceUris: Annotated[list[ResourceUri] | None, 8] = None
    catName: Annotated[str | None, 9] = None


class EnvironmentContext(Struct):
    """Options that accompany a call, such as ``DO_NOT_UPDATE_STATS``."""

    properties: Annotated[dict[str, str] | None, 1] = None


class GetCatalogsResponse(Struct):
    """The names of all catalogs. Hive 2.3 does not have this call, which distinguishes it from 3.1."""

    names: Annotated[list[str] | None, 1] = None


resolve()
