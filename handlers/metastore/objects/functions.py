"""Permanent functions."""

from __future__ import annotations

from types import NoneType
from typing import Final

from handlers.metastore.calls import Call, PlainCall
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    AlreadyExistsException,
    InvalidObjectException,
    MetaException,
    NoSuchObjectException,
)
from handlers.structs.functions import Function


_NAMES: Final = PlainCall("get_functions", list[str], changes=False)
_GET: Final = Call(
    "get_function",
    {"dbName": str, "funcName": str},
    Function,
    (MetaException, NoSuchObjectException),
    changes=False,
)
_CREATE: Final = Call(
    "create_function",
    {"func": Function},
    NoneType,
    (AlreadyExistsException, InvalidObjectException, MetaException, NoSuchObjectException),
    changes=True,
)
_DROP: Final = PlainCall("drop_function", NoneType, changes=True)


class FunctionCalls(Session):
    """Calls about permanent functions. The metastore stores their definition and never reads their files."""

    def function_names(self, db: str) -> list[str]:
        """Return the names of the functions of a database."""
        return self._invoke(_NAMES, db, "*")

    def get_function(self, db: str, name: str) -> Function:
        """Return a function; raise NotFound."""
        return self._invoke(_GET, db, name)

    def create_function(self, function: Function) -> None:
        """Create a function; raise AlreadyExists, or NotFound if its database is missing."""
        self._invoke(_CREATE, function)

    def drop_function(self, db: str, name: str) -> None:
        """Drop a function; raise NotFound."""
        self._invoke(_DROP, db, name)
