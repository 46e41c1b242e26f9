"""Primary and foreign keys, unique, not-null, default and check constraints."""
# ruff: noqa: N815, TC001 - field names are those of Hive's interface; annotations are read at run time

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, i32, i64, resolve


class SQLPrimaryKey(Struct):
    """One column of a primary key."""

    table_db: Annotated[str | None, 1] = None
    table_name: Annotated[str | None, 2] = None
    column_name: Annotated[str | None, 3] = None
    key_seq: Annotated[i32 | None, 4] = None
    pk_name: Annotated[str | None, 5] = None
    enable_cstr: Annotated[bool | None, 6] = None
    validate_cstr: Annotated[bool | None, 7] = None
    rely_cstr: Annotated[bool | None, 8] = None
    catName: Annotated[str | None, 9] = None


class SQLForeignKey(Struct):
    """One column of a foreign key."""

    pktable_db: Annotated[str | None, 1] = None
    pktable_name: Annotated[str | None, 2] = None
    pkcolumn_name: Annotated[str | None, 3] = None
    fktable_db: Annotated[str | None, 4] = None
    fktable_name: Annotated[str | None, 5] = None
    fkcolumn_name: Annotated[str | None, 6] = None
    key_seq: Annotated[i32 | None, 7] = None
    update_rule: Annotated[i32 | None, 8] = None
    delete_rule: Annotated[i32 | None, 9] = None
    fk_name: Annotated[str | None, 10] = None
    pk_name: Annotated[str | None, 11] = None
    enable_cstr: Annotated[bool | None, 12] = None
    validate_cstr: Annotated[bool | None, 13] = None
    rely_cstr: Annotated[bool | None, 14] = None
    catName: Annotated[str | None, 15] = None


class SQLUniqueConstraint(Struct):
    """One column of a unique constraint."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    key_seq: Annotated[i32 | None, 5] = None
    uk_name: Annotated[str | None, 6] = None
    enable_cstr: Annotated[bool | None, 7] = None
    validate_cstr: Annotated[bool | None, 8] = None
    rely_cstr: Annotated[bool | None, 9] = None


class SQLNotNullConstraint(Struct):
    """A column that must not be null."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    nn_name: Annotated[str | None, 5] = None
    enable_cstr: Annotated[bool | None, 6] = None
    validate_cstr: Annotated[bool | None, 7] = None
    rely_cstr: Annotated[bool | None, 8] = None


class SQLDefaultConstraint(Struct):
    """A column's default."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    default_value: Annotated[str | None, 5] = None
    dc_name: Annotated[str | None, 6] = None
    enable_cstr: Annotated[bool | None, 7] = None
    validate_cstr: Annotated[bool | None, 8] = None
    rely_cstr: Annotated[bool | None, 9] = None


class SQLCheckConstraint(Struct):
    """A check over one or more columns."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    check_expression: Annotated[str | None, 5] = None
    dc_name: Annotated[str | None, 6] = None
    enable_cstr: Annotated[bool | None, 7] = None
    validate_cstr: Annotated[bool | None, 8] = None
    rely_cstr: Annotated[bool | None, 9] = None


class AddPrimaryKeyRequest(Struct):
    """All columns of one key."""

    primaryKeyCols: Annotated[list[SQLPrimaryKey], 1]


class AddForeignKeyRequest(Struct):
    """All columns of one key."""

    foreignKeyCols: Annotated[list[SQLForeignKey], 1]


class AddUniqueConstraintRequest(Struct):
    """All columns of one constraint."""

    uniqueConstraintCols: Annotated[list[SQLUniqueConstraint], 1]


class AddNotNullConstraintRequest(Struct):
    """One or more constraints."""

    notNullConstraintCols: Annotated[list[SQLNotNullConstraint], 1]


class AddDefaultConstraintRequest(Struct):
    """One or more defaults."""

    defaultConstraintCols: Annotated[list[SQLDefaultConstraint], 1]


class AddCheckConstraintRequest(Struct):
    """One or more checks."""

    checkConstraintCols: Annotated[list[SQLCheckConstraint], 1]


class DropConstraintRequest(Struct):
    """Drops a constraint of any kind by name."""

    dbname: Annotated[str, 1]
    tablename: Annotated[str, 2]
    constraintname: Annotated[str, 3]
    catName: Annotated[str | None, 4] = None


class PrimaryKeysRequest(Struct):
    """Asks for a table's primary key."""

    db_name: Annotated[str, 1]
    tbl_name: Annotated[str, 2]
    catName: Annotated[str | None, 3] = None
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class PrimaryKeysResponse(Struct):
    """Its columns."""

    primaryKeys: Annotated[list[SQLPrimaryKey], 1]


class ForeignKeysRequest(Struct):
    """Asks by referring table, referred table, or both."""

    parent_db_name: Annotated[str | None, 1] = None
    parent_tbl_name: Annotated[str | None, 2] = None
    foreign_db_name: Annotated[str | None, 3] = None
    foreign_tbl_name: Annotated[str | None, 4] = None
    catName: Annotated[str | None, 5] = None
    validWriteIdList: Annotated[str | None, 6] = None
    tableId: Annotated[i64 | None, 7] = None


class ForeignKeysResponse(Struct):
    """Columns of all keys."""

    foreignKeys: Annotated[list[SQLForeignKey], 1]


class UniqueConstraintsRequest(Struct):
    """Asks for a table's unique constraints."""

    catName: Annotated[str, 1]
    db_name: Annotated[str, 2]
    tbl_name: Annotated[str, 3]
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class UniqueConstraintsResponse(Struct):
    """Their columns."""

    uniqueConstraints: Annotated[list[SQLUniqueConstraint], 1]


class NotNullConstraintsRequest(Struct):
    """Asks for a table's not-null constraints."""

    catName: Annotated[str, 1]
    db_name: Annotated[str, 2]
    tbl_name: Annotated[str, 3]
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class NotNullConstraintsResponse(Struct):
    """One per column."""

    notNullConstraints: Annotated[list[SQLNotNullConstraint], 1]


class DefaultConstraintsRequest(Struct):
    """Asks for a table's defaults."""

    catName: Annotated[str, 1]
    db_name: Annotated[str, 2]
    tbl_name: Annotated[str, 3]
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class DefaultConstraintsResponse(Struct):
    """One per column."""

    defaultConstraints: Annotated[list[SQLDefaultConstraint], 1]


class CheckConstraintsRequest(Struct):
    """Asks for a table's checks."""

    catName: Annotated[str, 1]
    db_name: Annotated[str, 2]
    tbl_name: Annotated[str, 3]
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class CheckConstraintsResponse(Struct):
    """Their columns."""

    checkConstraints: Annotated[list[SQLCheckConstraint], 1]


resolve()
