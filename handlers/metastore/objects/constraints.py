"""Constraints: primary and foreign keys, unique, not-null, default and check constraints.

Hive adds a constraint as a whole, all columns in one call, and drops constraints of any kind by name. Reading
takes one call for each kind, because the call for all kinds exists in Hive 4 only. All calls follow from
``handlers.structs.constraints.CONSTRAINT_KINDS``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import NoneType
from typing import Any, Final, TypeVar

from handlers.metastore.calls import V2_3, V3_1, Call
from handlers.metastore.session import CATALOG, Session
from handlers.structs.constraints import (
    CONSTRAINT_KINDS,
    FOREIGN_KEY,
    PRIMARY_KEY,
    ConstraintKind,
    DropConstraintRequest,
    SQLForeignKey,
)
from handlers.structs.exceptions import MetaException, NoSuchObjectException
from handlers.structs.struct import Struct
from state.errors import NotFound, ServerFault


C = TypeVar("C", bound=Struct)

_SINCE_HIVE_2: Final = (PRIMARY_KEY, FOREIGN_KEY)


def _call_name(kind: ConstraintKind[Any]) -> str:
    """Return the end of the call's name, such as ``primary_key``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind.hive_name).lower()


_ADD: Final[Mapping[ConstraintKind[Any], Call[None]]] = {
    kind: Call(
        f"add_{_call_name(kind)}",
        {"req": kind.add_request},
        NoneType,
        (NoSuchObjectException, MetaException),
        changes=True,
        since=V2_3 if kind in _SINCE_HIVE_2 else V3_1,
    )
    for kind in CONSTRAINT_KINDS
}
_LIST: Final[Mapping[ConstraintKind[Any], Call[Struct]]] = {
    kind: Call(
        f"get_{_call_name(kind)}s",
        {"request": kind.list_request},
        kind.list_response,
        (MetaException, NoSuchObjectException),
        changes=False,
        since=V2_3 if kind in _SINCE_HIVE_2 else V3_1,
    )
    for kind in CONSTRAINT_KINDS
}
_DROP: Final = Call(
    "drop_constraint",
    {"req": DropConstraintRequest},
    NoneType,
    (NoSuchObjectException, MetaException),
    changes=True,
)


class ConstraintCalls(Session):
    """Calls about constraints. Hive 2.3 has primary and foreign keys only."""

    def add_constraint(self, kind: ConstraintKind[C], columns: Sequence[C]) -> None:
        """Add one constraint, or several of one column each.

        Raises NotFound if the table is missing and InvalidRequest for an existing name. The table that a
        foreign key refers to must have the primary key.
        """
        self._invoke(_ADD[kind], kind.add_request(**{kind.add_field: list(columns)}))

    def drop_constraint(self, db: str, table: str, name: str) -> None:
        """Drop a constraint of any kind by its name; raise NotFound if it does not exist.

        The server answers a missing constraint with an internal error, because it throws an exception that
        the call does not declare. Listing the constraints then distinguishes the two cases.
        """
        try:
            self._invoke(_DROP, DropConstraintRequest(dbname=db, tablename=table, constraintname=name))
        except ServerFault:
            if name in self.constraint_names(db, table):
                raise
            raise NotFound(
                "the metastore does not have the constraint", table=f"{db}.{table}", constraint=name
            ) from None

    def constraints(self, kind: ConstraintKind[C], db: str, table: str) -> list[C]:
        """Return the columns of all constraints of one kind; for foreign keys, those of the referring table.

        A server that is too old for the kind has none.
        """
        if not _LIST[kind].exists_in(self.hive_version):
            return []
        answer = self._invoke(_LIST[kind], _list_request(kind, db, table))
        columns: list[C] = getattr(answer, kind.list_field)
        return columns

    def all_constraints(self, db: str, table: str) -> dict[ConstraintKind[Any], list[Any]]:
        """Return the columns of all constraints of a table by kind,
        for the kinds that the server's version has.
        """
        kinds = [kind for kind in CONSTRAINT_KINDS if _LIST[kind].exists_in(self.hive_version)]
        return {kind: self.constraints(kind, db, table) for kind in kinds}

    def foreign_keys_to(self, db: str, table: str) -> list[SQLForeignKey]:
        """Return the columns of all foreign keys that refer to a table; empty for Hive 2.3, which lists
        only the foreign keys of a named table.
        """
        if self.hive_version < V3_1:
            return []
        request = FOREIGN_KEY.list_request(parent_db_name=db, parent_tbl_name=table)
        columns: list[SQLForeignKey] = getattr(
            self._invoke(_LIST[FOREIGN_KEY], request), FOREIGN_KEY.list_field
        )
        return columns

    def constraint_names(self, db: str, table: str) -> set[str]:
        """Return the names of all constraints of a table."""
        constraints = self.all_constraints(db, table)
        names = {kind.name_of(column) for kind, columns in constraints.items() for column in columns}
        return {name for name in names if name is not None}


def _list_request(kind: ConstraintKind[Any], db: str, table: str) -> Struct:
    if kind is FOREIGN_KEY:
        return kind.list_request(foreign_db_name=db, foreign_tbl_name=table)
    if kind is PRIMARY_KEY:
        return kind.list_request(db_name=db, tbl_name=table)
    return kind.list_request(catName=CATALOG, db_name=db, tbl_name=table)
