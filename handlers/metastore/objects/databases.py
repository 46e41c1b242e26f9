"""Databases, and the settings and version of the server."""

from __future__ import annotations

from types import NoneType
from typing import Final

from handlers.metastore.calls import Call, PlainCall
from handlers.metastore.hive_version import V3_1
from handlers.metastore.session import Session
from handlers.structs.exceptions import (
    AlreadyExistsException,
    InvalidObjectException,
    MetaException,
    NoSuchObjectException,
)
from handlers.structs.objects import Database


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
_UUID: Final = Call("get_metastore_db_uuid", {}, str, (MetaException,), changes=False, since=V3_1)
_CONFIG: Final = PlainCall("get_config_value", str, changes=False)

_TRANSFORMER: Final = "metastore.metadata.transformer.class"


class DatabaseCalls(Session):
    """Calls about databases and about the server."""

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

    def drop_database(self, name: str, *, cascade: bool = False, delete_data: bool = True) -> None:
        """Drop a database; raise NotFound, or InvalidRequest if it has tables and ``cascade`` is False."""
        self._invoke(_DROP, name, delete_data, cascade)

    def config_value(self, key: str, default: str = "") -> str:
        """Return one of the server's settings, or ``default`` if it is not set.

        Raises InvalidRequest for keys that Hive does not reveal; ``hive.``, ``metastore.`` and ``hdfs.`` are revealed.
        """
        return self._invoke(_CONFIG, key, default)

    def translates_plain_tables(self) -> bool:
        """Whether the server makes plain managed tables external when they are created, as Hive 4 does by default."""
        return bool(self.config_value(_TRANSFORMER).strip())

    def metastore_uuid(self) -> str:
        """Return the random id that the metastore's database got when it was created (since Hive 3.1)."""
        return self._invoke(_UUID)
