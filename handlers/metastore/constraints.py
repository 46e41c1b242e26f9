"""Constraints: keys, unique, not null, defaults and checks.

Hive adds a constraint whole (all columns in one call) and drops any kind by its name. Reading takes one call per kind, since
the call for all kinds exists in Hive 4 only.
"""

from __future__ import annotations

from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.calls import Call
from handlers.metastore.hive_version import V3_1
from handlers.metastore.session import CATALOG, Session
from handlers.structs.constraints import (
    AddCheckConstraintRequest,
    AddDefaultConstraintRequest,
    AddForeignKeyRequest,
    AddNotNullConstraintRequest,
    AddPrimaryKeyRequest,
    AddUniqueConstraintRequest,
    CheckConstraintsRequest,
    CheckConstraintsResponse,
    DefaultConstraintsRequest,
    DefaultConstraintsResponse,
    DropConstraintRequest,
    ForeignKeysRequest,
    ForeignKeysResponse,
    NotNullConstraintsRequest,
    NotNullConstraintsResponse,
    PrimaryKeysRequest,
    PrimaryKeysResponse,
    SQLCheckConstraint,
    SQLDefaultConstraint,
    SQLForeignKey,
    SQLNotNullConstraint,
    SQLPrimaryKey,
    SQLUniqueConstraint,
    UniqueConstraintsRequest,
    UniqueConstraintsResponse,
)
from handlers.structs.exceptions import MetaException, NoSuchObjectException
from state.errors import NotFound, ServerFault


if TYPE_CHECKING:
    from collections.abc import Sequence


_ADDING: Final = (NoSuchObjectException, MetaException)
_READING: Final = (MetaException, NoSuchObjectException)

_ADD_PRIMARY: Final = Call("add_primary_key", {"req": AddPrimaryKeyRequest}, NoneType, _ADDING, changes=True)
_ADD_FOREIGN: Final = Call("add_foreign_key", {"req": AddForeignKeyRequest}, NoneType, _ADDING, changes=True)
_ADD_UNIQUE: Final = Call(
    "add_unique_constraint", {"req": AddUniqueConstraintRequest}, NoneType, _ADDING, changes=True, since=V3_1
)
_ADD_NOT_NULL: Final = Call(
    "add_not_null_constraint",
    {"req": AddNotNullConstraintRequest},
    NoneType,
    _ADDING,
    changes=True,
    since=V3_1,
)
_ADD_DEFAULT: Final = Call(
    "add_default_constraint",
    {"req": AddDefaultConstraintRequest},
    NoneType,
    _ADDING,
    changes=True,
    since=V3_1,
)
_ADD_CHECK: Final = Call(
    "add_check_constraint", {"req": AddCheckConstraintRequest}, NoneType, _ADDING, changes=True, since=V3_1
)
_DROP: Final = Call("drop_constraint", {"req": DropConstraintRequest}, NoneType, _ADDING, changes=True)
_PRIMARY: Final = Call(
    "get_primary_keys", {"request": PrimaryKeysRequest}, PrimaryKeysResponse, _READING, changes=False
)
_FOREIGN: Final = Call(
    "get_foreign_keys", {"request": ForeignKeysRequest}, ForeignKeysResponse, _READING, changes=False
)
_UNIQUE: Final = Call(
    "get_unique_constraints",
    {"request": UniqueConstraintsRequest},
    UniqueConstraintsResponse,
    _READING,
    changes=False,
    since=V3_1,
)
_NOT_NULL: Final = Call(
    "get_not_null_constraints",
    {"request": NotNullConstraintsRequest},
    NotNullConstraintsResponse,
    _READING,
    changes=False,
    since=V3_1,
)
_DEFAULT: Final = Call(
    "get_default_constraints",
    {"request": DefaultConstraintsRequest},
    DefaultConstraintsResponse,
    _READING,
    changes=False,
    since=V3_1,
)
_CHECK: Final = Call(
    "get_check_constraints",
    {"request": CheckConstraintsRequest},
    CheckConstraintsResponse,
    _READING,
    changes=False,
    since=V3_1,
)


class ConstraintCalls(Session):
    """What concerns constraints. Adding raises NotFound for a missing table, InvalidRequest for a name that is taken."""

    def add_primary_key(self, columns: Sequence[SQLPrimaryKey]) -> None:
        """Add a primary key."""
        self._invoke(_ADD_PRIMARY, AddPrimaryKeyRequest(primaryKeyCols=list(columns)))

    def add_foreign_key(self, columns: Sequence[SQLForeignKey]) -> None:
        """Add a foreign key; the referred table has to have the primary key."""
        self._invoke(_ADD_FOREIGN, AddForeignKeyRequest(foreignKeyCols=list(columns)))

    def add_unique_constraint(self, columns: Sequence[SQLUniqueConstraint]) -> None:
        """Add a unique constraint (since Hive 3.1, like those below)."""
        self._invoke(_ADD_UNIQUE, AddUniqueConstraintRequest(uniqueConstraintCols=list(columns)))

    def add_not_null_constraint(self, columns: Sequence[SQLNotNullConstraint]) -> None:
        """Add not-null constraints."""
        self._invoke(_ADD_NOT_NULL, AddNotNullConstraintRequest(notNullConstraintCols=list(columns)))

    def add_default_constraint(self, columns: Sequence[SQLDefaultConstraint]) -> None:
        """Add defaults."""
        self._invoke(_ADD_DEFAULT, AddDefaultConstraintRequest(defaultConstraintCols=list(columns)))

    def add_check_constraint(self, columns: Sequence[SQLCheckConstraint]) -> None:
        """Add checks."""
        self._invoke(_ADD_CHECK, AddCheckConstraintRequest(checkConstraintCols=list(columns)))

    def drop_constraint(self, db: str, table: str, name: str) -> None:
        """Drop a constraint of any kind by its name; raise NotFound.

        The server answers a missing one with an internal error (it throws what the call does not declare), so then the
        constraints are looked at.
        """
        try:
            self._invoke(_DROP, DropConstraintRequest(dbname=db, tablename=table, constraintname=name))
        except ServerFault:
            if name in self.constraint_names(db, table):
                raise
            raise NotFound(
                "The metastore does not have the constraint.", table=f"{db}.{table}", constraint=name
            ) from None

    def primary_key(self, db: str, table: str) -> list[SQLPrimaryKey]:
        """Return the columns of the primary key; empty where there is none."""
        return self._invoke(_PRIMARY, PrimaryKeysRequest(db_name=db, tbl_name=table)).primaryKeys

    def foreign_keys(self, db: str, table: str) -> list[SQLForeignKey]:
        """Return the columns of all foreign keys that ``db.table`` has (not of those that refer to it)."""
        request = ForeignKeysRequest(foreign_db_name=db, foreign_tbl_name=table)
        return self._invoke(_FOREIGN, request).foreignKeys

    def unique_constraints(self, db: str, table: str) -> list[SQLUniqueConstraint]:
        """Return the columns of all unique constraints."""
        request = UniqueConstraintsRequest(catName=CATALOG, db_name=db, tbl_name=table)
        return self._invoke(_UNIQUE, request).uniqueConstraints

    def not_null_constraints(self, db: str, table: str) -> list[SQLNotNullConstraint]:
        """Return all not-null constraints."""
        request = NotNullConstraintsRequest(catName=CATALOG, db_name=db, tbl_name=table)
        return self._invoke(_NOT_NULL, request).notNullConstraints

    def default_constraints(self, db: str, table: str) -> list[SQLDefaultConstraint]:
        """Return all defaults."""
        request = DefaultConstraintsRequest(catName=CATALOG, db_name=db, tbl_name=table)
        return self._invoke(_DEFAULT, request).defaultConstraints

    def check_constraints(self, db: str, table: str) -> list[SQLCheckConstraint]:
        """Return the columns of all checks."""
        request = CheckConstraintsRequest(catName=CATALOG, db_name=db, tbl_name=table)
        return self._invoke(_CHECK, request).checkConstraints

    def constraint_names(self, db: str, table: str) -> set[str]:
        """Return the names of all constraints of a table; on Hive 2.3 those of keys, since there are no others."""
        names = {c.pk_name for c in self.primary_key(db, table)} | {
            c.fk_name for c in self.foreign_keys(db, table)
        }
        if self.hive_version >= V3_1:
            names |= {c.uk_name for c in self.unique_constraints(db, table)}
            names |= {c.nn_name for c in self.not_null_constraints(db, table)}
            names |= {c.dc_name for c in self.default_constraints(db, table)}
            names |= {c.dc_name for c in self.check_constraints(db, table)}
        return {name for name in names if name is not None}
