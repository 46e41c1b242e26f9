"""Objects inside messages: kept as text, decoded when a projection asks for them.

They are Thrift's JSON protocol of the bare struct (reference §1.3), decoded by ``handlers.structs.tjson``. Here only their
presence and number is checked.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from handlers.events import Embedded
from handlers.structs import ColumnStatistics, Database, Partition, Table, tjson


if TYPE_CHECKING:
    from handlers.decoding.fields import Fields


_DATABASE: Final = partial(tjson.decode, Database)
_TABLE: Final = partial(tjson.decode, Table)
_PARTITION: Final = partial(tjson.decode, Partition)
_STATISTICS: Final = partial(tjson.decode, ColumnStatistics)


def database(message: Fields, name: str) -> Embedded[Database]:
    """Return the database in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _DATABASE)


def optional_database(message: Fields, name: str) -> Embedded[Database] | None:
    """Return the database in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _DATABASE) if text else None


def table(message: Fields, name: str) -> Embedded[Table]:
    """Return the table in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _TABLE)


def optional_table(message: Fields, name: str) -> Embedded[Table] | None:
    """Return the table in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _TABLE) if text else None


def partition(message: Fields, name: str) -> Embedded[Partition]:
    """Return the partition in field ``name``; raise MalformedEvent where it is missing."""
    return Embedded(message.required_text(name), _PARTITION)


def optional_partition(message: Fields, name: str) -> Embedded[Partition] | None:
    """Return the partition in field ``name``, None where it is missing."""
    text = message.text(name)
    return Embedded(text, _PARTITION) if text else None


def partitions(message: Fields, name: str) -> tuple[Embedded[Partition], ...]:
    """Return the list of partitions in field ``name``."""
    return tuple(Embedded(text, _PARTITION) for text in message.texts(name, "partitions"))


def statistics(message: Fields, name: str) -> Embedded[ColumnStatistics]:
    """Return the column statistics in field ``name``; raise MalformedEvent where they are missing."""
    return Embedded(message.required_text(name), _STATISTICS)
