"""Constraints: the structs of the six kinds, and one table with everything that Hive names after a kind.

Hive has four structs and two calls for each kind of constraint, which differ only in their names.
``CONSTRAINT_KINDS`` lists the kinds; requests and responses are derived from the name of the kind.
"""
# ruff: noqa: N815 - field names are those of Hive's interface

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Generic, TypeVar

from handlers.structs.struct import Struct, declare, i32, i64, resolve


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
    """A not-null constraint on one column."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    nn_name: Annotated[str | None, 5] = None
    enable_cstr: Annotated[bool | None, 6] = None
    validate_cstr: Annotated[bool | None, 7] = None
    rely_cstr: Annotated[bool | None, 8] = None


class SQLDefaultConstraint(Struct):
    """The default value of one column."""

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
    """One column of a check constraint."""

    catName: Annotated[str | None, 1] = None
    table_db: Annotated[str | None, 2] = None
    table_name: Annotated[str | None, 3] = None
    column_name: Annotated[str | None, 4] = None
    check_expression: Annotated[str | None, 5] = None
    dc_name: Annotated[str | None, 6] = None
    enable_cstr: Annotated[bool | None, 7] = None
    validate_cstr: Annotated[bool | None, 8] = None
    rely_cstr: Annotated[bool | None, 9] = None


class DropConstraintRequest(Struct):
    """Drops the constraint of that name, of any kind."""

    dbname: Annotated[str, 1]
    tablename: Annotated[str, 2]
    constraintname: Annotated[str, 3]
    catName: Annotated[str | None, 4] = None


class PrimaryKeysRequest(Struct):
    """Requests the primary key of a table."""

    db_name: Annotated[str, 1]
    tbl_name: Annotated[str, 2]
    catName: Annotated[str | None, 3] = None
    validWriteIdList: Annotated[str | None, 4] = None
    tableId: Annotated[i64 | None, 5] = None


class ForeignKeysRequest(Struct):
    """Requests foreign keys by referring table, referred table, or both."""

    parent_db_name: Annotated[str | None, 1] = None
    parent_tbl_name: Annotated[str | None, 2] = None
    foreign_db_name: Annotated[str | None, 3] = None
    foreign_tbl_name: Annotated[str | None, 4] = None
    catName: Annotated[str | None, 5] = None
    validWriteIdList: Annotated[str | None, 6] = None
    tableId: Annotated[i64 | None, 7] = None


C = TypeVar("C", bound=Struct)


@dataclass(frozen=True, slots=True, eq=False)
class ConstraintKind(Generic[C]):
    """One kind of constraint.
    ``hive_name`` is the name that Hive's structs, fields and calls are derived from.
    """

    hive_name: str
    event_type: str
    column: type[C]
    """The struct of one constrained column."""
    name_field: str
    """The field of ``column`` that contains the constraint's name."""
    list_request: type[Struct]
    add_request: type[Struct] = field(init=False)
    list_response: type[Struct] = field(init=False)

    def __post_init__(self) -> None:
        # The type exists at run time only
        columns = Annotated[list[self.column], 1]  # type: ignore[name-defined]
        add_request = declare(__name__, f"Add{self.hive_name}Request", {self.add_field: columns})
        list_response = declare(__name__, f"{self.hive_name}sResponse", {self.list_field: columns})
        object.__setattr__(self, "add_request", add_request)
        object.__setattr__(self, "list_response", list_response)

    @property
    def add_field(self) -> str:
        """The field of ``add_request``, such as ``primaryKeyCols``."""
        return f"{self.hive_name[0].lower()}{self.hive_name[1:]}Cols"

    @property
    def list_field(self) -> str:
        """The field of ``list_response``, such as ``primaryKeys``."""
        return f"{self.hive_name[0].lower()}{self.hive_name[1:]}s"

    def name_of(self, column: C) -> str | None:
        """Return the name of the constraint that ``column`` belongs to."""
        name: str | None = getattr(column, self.name_field)
        return name


def _list_request(name: str) -> type[Struct]:
    """Return the request struct of a kind that Hive has had since 3.1."""
    fields: dict[str, Any] = {
        "catName": Annotated[str, 1],
        "db_name": Annotated[str, 2],
        "tbl_name": Annotated[str, 3],
        "validWriteIdList": Annotated[str | None, 4],
        "tableId": Annotated[i64 | None, 5],
    }
    return declare(__name__, name, fields)


PRIMARY_KEY: Final = ConstraintKind(
    "PrimaryKey", "ADD_PRIMARYKEY", SQLPrimaryKey, "pk_name", PrimaryKeysRequest
)
FOREIGN_KEY: Final = ConstraintKind(
    "ForeignKey", "ADD_FOREIGNKEY", SQLForeignKey, "fk_name", ForeignKeysRequest
)
UNIQUE: Final = ConstraintKind(
    "UniqueConstraint",
    "ADD_UNIQUECONSTRAINT",
    SQLUniqueConstraint,
    "uk_name",
    _list_request("UniqueConstraintsRequest"),
)
NOT_NULL: Final = ConstraintKind(
    "NotNullConstraint",
    "ADD_NOTNULLCONSTRAINT",
    SQLNotNullConstraint,
    "nn_name",
    _list_request("NotNullConstraintsRequest"),
)
DEFAULT: Final = ConstraintKind(
    "DefaultConstraint",
    "ADD_DEFAULTCONSTRAINT",
    SQLDefaultConstraint,
    "dc_name",
    _list_request("DefaultConstraintsRequest"),
)
CHECK: Final = ConstraintKind(
    "CheckConstraint",
    "ADD_CHECKCONSTRAINT",
    SQLCheckConstraint,
    "dc_name",
    _list_request("CheckConstraintsRequest"),
)
CONSTRAINT_KINDS: Final[tuple[ConstraintKind[Any], ...]] = (
    PRIMARY_KEY,
    FOREIGN_KEY,
    UNIQUE,
    NOT_NULL,
    DEFAULT,
    CHECK,
)


resolve()
