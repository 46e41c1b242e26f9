"""From what the metastore answers to Tideline's own errors. Hive's class and message stay in the context."""

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

# By name, since hmsclient's generated calls raise its own classes and ours raise ours.
_BY_CLASS: Final[dict[str, tuple[type[TidelineError], str]]] = {
    "NoSuchObjectException": (NotFound, "The metastore does not have it."),
    "UnknownDBException": (NotFound, "The metastore does not have the database."),
    "UnknownTableException": (NotFound, "The metastore does not have the table."),
    "UnknownPartitionException": (NotFound, "The metastore does not have the partition."),
    "NoSuchLockException": (NotFound, "The metastore does not have the lock."),
    "AlreadyExistsException": (AlreadyExists, "The metastore has it already."),
    "NoSuchTxnException": (TxnNotOpen, "The metastore does not have the transaction."),
    "TxnAbortedException": (TxnNotOpen, "The transaction was aborted."),
}
# MetaException also carries the troubles of the metastore's own database; Hive's client repeats for these words
# (RetryingMetaStoreClient), and the last two are what DataNucleus says on Derby and PostgreSQL.
_TROUBLE: Final = re.compile(
    r"\b(IO|JDO\w*|TProtocol|TTransport)Exception|NucleusDataStoreException|rolling back to savepoint"
)
_REFUSED: Final = (InvalidRequest, "The metastore refuses the request.")


def translated(error: Exception, call: str, address: object) -> TidelineError:
    """Return the error of our tree for what the server answered to ``call``."""
    if isinstance(error, TApplicationException):
        return _fault(error, call, address)
    if type(error).__name__ == "MetaException" and _TROUBLE.search(_reason(error)):
        return _server_fault("The metastore's own database failed.", error, call, address)
    cls, message = _BY_CLASS.get(type(error).__name__, _REFUSED)
    return cls(message, call=call, address=str(address), hive=type(error).__name__, reason=_reason(error))


def is_fault(error: Exception) -> bool:
    """Whether the server failed instead of refusing; after some of these it closes the connection."""
    return isinstance(error, TApplicationException) and error.type != TApplicationException.UNKNOWN_METHOD


def _fault(error: Any, call: str, address: object) -> TidelineError:
    if error.type == TApplicationException.UNKNOWN_METHOD:
        return Unsupported("The metastore does not know the call.", call=call, address=str(address))
    return _server_fault("The metastore answered with an internal error.", error, call, address)


def _server_fault(message: str, error: Exception, call: str, address: object) -> ServerFault:
    return ServerFault(message, call=call, address=str(address), reason=_reason(error))


def _reason(error: Any) -> str:
    return str(getattr(error, "message", None) or "")[:_MESSAGE_CHARS_MAX]
