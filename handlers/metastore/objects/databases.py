"""Databases and their permanent functions, and the settings of the server."""

from __future__ import annotations

from types import NoneType
from typing import Final

from handlers.metastore.calls import V3_1, Call, PlainCall
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    AlreadyExistsException,
    InvalidObjectException,
    MetaException,
    NoSuchObjectException,
)
from handlers.structs.objects import Database, Function


_NAMES: Final = PlainCall("get_all_databases", list[str], changes=False)
_GET: Final = Call(
    "get_database", {"name": str}, Database, (NoSuchObjectException, MetaException), changes=False
)
_CREATE: Final = Call(
    "create_database",
    {"database": Database},
    NoneType,
    (AlreadyExistsException, InvalidObjectException, MetaException),
    changes=True,
)
_ALTER: Final = Call(
    "alter_database",
    {"dbname": str, "db": Database},
    NoneType,
    (MetaException, NoSuchObjectException),
    changes=True,
)
_DROP: Final = PlainCall("drop_database", NoneType, changes=True)
_FUNCTION_NAMES: Final = PlainCall("get_functions", list[str], changes=False)
_GET_FUNCTION: Final = Call(
    "get_function",
    {"dbName": str, "funcName": str},
    Function,
    (MetaException, NoSuchObjectException),
    changes=False,
)
_CREATE_FUNCTION: Final = Call(
    "create_function",
    {"func": Function},
    NoneType,
    (AlreadyExistsException, InvalidObjectException, MetaException, NoSuchObjectException),
    changes=True,
)
_DROP_FUNCTION: Final = PlainCall("drop_function", NoneType, changes=True)
_UUID: Final = Call("get_metastore_db_uuid", {}, str, (MetaException,), changes=False, since=V3_1)
_CONFIG: Final = PlainCall("get_config_value", str, changes=False)

_TRANSFORMER: Final = "metastore.metadata.transformer.class"


class DatabaseCalls(Session):
    """Calls about databases, functions and the server.

    The metastore stores the definition of a function and never reads its files.
    """

    def database_names(self) -> list[str]:
        """Return the names of all databases."""
        return self._invoke(_NAMES)

    def get_database(self, name: str) -> Database:
        """Return a database; raise NotFound."""
        return self._invoke(_GET, name)

    def create_database(self, database: Database) -> None:
        """Create a database; raise AlreadyExists."""
        self._invoke(_CREATE, database)

    def alter_database(self, name: str, database: Database) -> None:
        """Replace parameters, owner and locations by those of ``database``; raise NotFound."""
        self._invoke(_ALTER, name, database)

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database with its data.

        Raises NotFound, or InvalidRequest if it has tables and ``cascade`` is False.
        """
        self._invoke(_DROP, name, True, cascade)

    def function_names(self, db: str) -> list[str]:
        """Return the names of the functions of a database."""
        return self._invoke(_FUNCTION_NAMES, db, "*")

    def get_function(self, db: str, name: str) -> Function:
        """Return a function; raise NotFound."""
        return self._invoke(_GET_FUNCTION, db, name)

    def create_function(self, function: Function) -> None:
        """Create a function; raise AlreadyExists, or NotFound if its database is missing."""
        self._invoke(_CREATE_FUNCTION, function)

    def drop_function(self, db: str, name: str) -> None:
        """Drop a function; raise NotFound."""
        self._invoke(_DROP_FUNCTION, db, name)

    def config_value(self, key: str, default: str = "") -> str:
        """Return one of the server's settings, or ``default`` if it is not set.

        Raises InvalidRequest for keys that Hive does not reveal; ``hive.``, ``metastore.`` and ``hdfs.`` are
        revealed.
        """
        return self._invoke(_CONFIG, key, default)

    def translates_plain_tables(self) -> bool:
        """Whether the server makes plain managed tables external when created, as Hive 4 does by default."""
        return bool(self.config_value(_TRANSFORMER).strip())

    def metastore_uuid(self) -> str:
        """Return the random id that the metastore's database got when created (since Hive 3.1)."""
        return self._invoke(_UUID)
