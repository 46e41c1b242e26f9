"""Calls that Hive 4.0.1 dropped, answered through their successors.

The endpoint sends the original call first. If the server answers that it does not have the call, the endpoint
translates it, and from then on does so without another attempt. A connection leads to one server of one
version, so one attempt per call and connection is enough, even if servers of several versions share an
address.

Tables move between the answers as bytes, so they lose no field. Exceptions need no translation: the
successors declare the same ones under the same numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from thrift.Thrift import TMessageType, TType

from daemon.endpoint.protocol.wire import (
    Message,
    Value,
    empty_list,
    is_empty_list,
    read_fields,
    struct_value,
    text_value,
    write_struct,
)
from state.errors import BadInput


if TYPE_CHECKING:
    from collections.abc import Callable

    from daemon.endpoint.metrics import EndpointMetrics
    from daemon.endpoint.responders import Metastore


CATALOG_MARKER: Final = "@"
CATALOG_SEPARATOR: Final = "#"


class SuccessorCalls:
    """Answers calls that Hive 4 dropped, for one connection."""

    def __init__(self, metrics: EndpointMetrics) -> None:
        self._metrics = metrics
        self._missing: set[str] = set()
        self._present: set[str] = set()

    def respond(self, request: Message, metastore: Metastore) -> Message | None:
        """Return the answer to a dropped call; None if the metastore has the call."""
        translate = TRANSLATIONS.get(request.name)
        if translate is None or request.name in self._present:
            return None
        if request.name not in self._missing:
            answer = metastore.exchange(request)
            if not answer.is_unknown_method:
                self._present.add(request.name)
                return answer
            self._missing.add(request.name)
        self._metrics.translated.labels(request.name).inc()
        return translate(request, metastore)


@dataclass(frozen=True, slots=True)
class _Successor:
    """The successor of a call: it takes a request struct, and returns a struct with the old result as field
    1.
    """

    name: str
    refuse: Callable[[dict[int, Value]], bytes | None]
    """Returns the answer to arguments that the successor could not take."""

    def __call__(self, request: Message, metastore: Metastore) -> Message:
        arguments = read_fields(request.body)
        refusal = self.refuse(arguments)
        if refusal is not None:
            return request.answer(refusal)
        answer = metastore.exchange(request.successor(self.name, self._arguments(arguments)))
        body = self._unwrap(answer.body) if answer.header.kind == TMessageType.REPLY else answer.body
        return request.answer(body, answer.header.kind)

    def _arguments(self, arguments: dict[int, Value]) -> bytes:
        catalog, database = split_catalog(arguments[1].to_text())
        fields = [(1, text_value(database)), (2, arguments[2])]
        if catalog is not None:
            fields.append((4, text_value(catalog)))
        return write_struct([(1, struct_value(fields))])

    @staticmethod
    def _unwrap(body: bytes) -> bytes:
        answer = read_fields(body)
        if 0 not in answer:
            return body  # a declared exception
        result = read_fields(answer[0].data)
        if 1 not in result:
            raise BadInput("the metastore's answer does not contain its result")
        return write_struct([(0, result[1])])


def split_catalog(database: str) -> tuple[str | None, str]:
    """Split ``@catalog#database``, the form in which clients of Hive 3 and later name a database of a
    catalog.
    """
    if not database.startswith(CATALOG_MARKER) or CATALOG_SEPARATOR not in database:
        return None, database
    catalog, _, name = database.removeprefix(CATALOG_MARKER).partition(CATALOG_SEPARATOR)
    return catalog, name


def _exception(number: int, message: str) -> bytes:
    return write_struct([(number, struct_value([(1, text_value(message))]))])


def _refuse_table(arguments: dict[int, Value]) -> bytes | None:
    if arguments.keys() >= {1, 2}:
        return None
    return _exception(1, "get_table: the database and the table are required")  # MetaException


def _refuse_tables(arguments: dict[int, Value]) -> bytes | None:
    if 1 not in arguments:
        return _exception(3, "DB name is null or empty")  # UnknownDBException
    if 2 not in arguments:
        return _exception(2, "the names of the tables are required")  # InvalidOperationException
    if is_empty_list(arguments[2]):
        return write_struct([(0, empty_list(TType.STRUCT))])  # the successor might return every table
    return None


def _always(body: bytes) -> Callable[[Message, Metastore], Message]:
    return lambda request, _metastore: request.answer(body)


_NO_INDEXES: Final = "Hive removed indexes in version 3.0; the metastore does not have any"

TRANSLATIONS: Final[dict[str, Callable[[Message, Metastore], Message]]] = {
    "get_table": _Successor("get_table_req", _refuse_table),
    "get_table_objects_by_name": _Successor("get_table_objects_by_name_req", _refuse_tables),
    "get_indexes": _always(write_struct([(0, empty_list(TType.STRUCT))])),
    "get_index_names": _always(write_struct([(0, empty_list(TType.STRING))])),
    "get_index_by_name": _always(_exception(2, _NO_INDEXES)),  # NoSuchObjectException
    "add_index": _always(_exception(3, _NO_INDEXES)),  # MetaException
    "alter_index": _always(_exception(2, _NO_INDEXES)),  # MetaException
    "drop_index_by_name": _always(_exception(2, _NO_INDEXES)),  # MetaException
}
"""Every dropped call, with its replacement. The numbers are those of the
exceptions that the calls declare.
"""
