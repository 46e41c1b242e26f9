"""Objects by field names, as the Apiary formats have them, made into the same lazily decoded structs as all others."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import orjson

from handlers.decoding.fields import Fields
from handlers.decoding.messages import write
from handlers.events import Embedded
from handlers.structs import Partition, Struct, Table, tjson
from state.errors import MalformedEvent


if TYPE_CHECKING:
    from handlers.decoding.messages import JsonObject


S = TypeVar("S", bound=Struct)


def _from_names(cls: type[S], text: str) -> S:
    return tjson.from_names(cls, orjson.loads(text))


_TABLE: Final = partial(_from_names, Table)
_PARTITION: Final = partial(_from_names, Partition)


def embedded_table(record: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent where there is no object."""
    return Embedded(_text(record.raw.get(name), name), _TABLE)


def embedded_partition(value: object) -> Embedded[Partition]:
    """Return the partition that ``value`` is; raise MalformedEvent where it is no object."""
    return Embedded(_text(value, "partition"), _PARTITION)


def spec_of(record: Fields, value: object) -> dict[str, str]:
    """Return the columns and values of a partition, by the partition keys of ``record``'s table."""
    table, partition = record.raw.get("table"), value
    if type(table) is not dict or type(partition) is not dict:
        raise MalformedEvent("a dropped partition has no object or no table")
    columns = [
        Fields(key, record.limits).name("name") if type(key) is dict else None
        for key in Fields(table, record.limits).items("partitionKeys", "partitions")
    ]
    values = Fields(partition, record.limits).texts("values", "partitions")
    if None in columns or len(columns) != len(values):
        raise MalformedEvent(
            "partition keys and values differ in number", keys=len(columns), values=len(values)
        )
    return {str(column): text for column, text in zip(columns, values, strict=True)}


def sns_table(common: dict[str, Any], record: Fields, *, location: str = "tableLocation") -> Embedded[Table]:
    """Build a table from what the SNS format has: names, location, parameters, partition keys."""
    columns = (record.spec("partitionKeys") if record.raw.get("partitionKeys") else None) or {}
    fields: JsonObject = {
        "tableName": common["table"],
        "dbName": common["db"],
        "sd": {"location": record.text(location)},
        "partitionKeys": [{"name": name, "type": kind} for name, kind in columns.items()],
        "parameters": record.raw.get("tableParameters"),
    }
    return Embedded(write(fields).decode(), _TABLE)


def sns_partition(common: dict[str, Any], record: Fields, values: str, location: str) -> Embedded[Partition]:
    """Build a partition from its values and location."""
    fields: JsonObject = {
        "values": record.texts(values, "partitions"),
        "dbName": common["db"],
        "tableName": common["table"],
        "sd": {"location": record.text(location)},
    }
    return Embedded(write(fields).decode(), _PARTITION)


def _text(value: object, name: str) -> str:
    if type(value) is not dict:
        raise MalformedEvent(f"the field {name} is not an object", value=repr(value)[:100])
    return write(value).decode()
