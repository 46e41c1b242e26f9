"""Mapping of the metastore's exceptions to Tideline's errors. Hive's class and message stay in the context."""

from __future__ import annotations

import re
from typing import Any, Final

from thrift.Thrift import TApplicationException

from state.errors import (
    AlreadyExists,
    InvalidRequest,
    NotFound,
    ServerFault,
    TidelineError,
    TxnNotOpen,
    Unsupported,
)


_MESSAGE_CHARS_MAX: Final = 4000

# By name: the generated calls of hmsclient and those of this package raise different classes.
_BY_CLASS: Final[dict[str, tuple[type[TidelineError], str]]] = {
    "NoSuchObjectException": (NotFound, "the metastore does not have the object"),
    "UnknownDBException": (NotFound, "the metastore does not have the database"),
    "UnknownTableException": (NotFound, "the metastore does not have the table"),
    "UnknownPartitionException": (NotFound, "the metastore does not have the partition"),
    "NoSuchLockException": (NotFound, "the metastore does not have the lock"),
    "AlreadyExistsException": (AlreadyExists, "the metastore already has the object"),
    "NoSuchTxnException": (TxnNotOpen, "the metastore does not have the transaction"),
    "TxnAbortedException": (TxnNotOpen, "the transaction was aborted"),
}
# A MetaException also reports failures of the metastore's own database. Hive's client (RetryingMetaStoreClient) repeats calls
# for these words; the last two appear in DataNucleus' messages on Derby and PostgreSQL.
_DATABASE_FAILURE: Final = re.compile(
    r"\b(IO|JDO\w*|TProtocol|TTransport)Exception|NucleusDataStoreException|rolling back to savepoint"
)
_REFUSED: Final = (InvalidRequest, "the metastore rejected the request")


def to_tideline_error(error: Exception, call: str, address: object) -> TidelineError:
    """Return the error of ``state.errors`` for the server's answer to ``call``."""
    if isinstance(error, TApplicationException):
        return _fault(error, call, address)
    if type(error).__name__ == "MetaException" and _DATABASE_FAILURE.search(_reason(error)):
        return _server_fault("the metastore's own database failed", error, call, address)
    cls, message = _BY_CLASS.get(type(error).__name__, _REFUSED)
    return cls(message, call=call, address=str(address), hive=type(error).__name__, reason=_reason(error))


def is_server_fault(error: Exception) -> bool:
    """Whether the server failed, as opposed to rejecting the request; after some failures it closes the connection."""
    return isinstance(error, TApplicationException) and error.type != TApplicationException.UNKNOWN_METHOD


def _fault(error: Any, call: str, address: object) -> TidelineError:
    if error.type == TApplicationException.UNKNOWN_METHOD:
        return Unsupported("the metastore does not support the call", call=call, address=str(address))
    return _server_fault("the metastore answered with an internal error", error, call, address)


def _server_fault(message: str, error: Exception, call: str, address: object) -> ServerFault:
    return ServerFault(message, call=call, address=str(address), reason=_reason(error))


def _reason(error: Any) -> str:
    return str(getattr(error, "message", None) or "")[:_MESSAGE_CHARS_MAX]
