"""Mapping of the metastore's exceptions to Tideline's errors.
Hive's class and message stay in the context.
"""

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
# Hive reports with a MetaException both that a request is wrong and that the metastore's own database or file
# system failed ("Failed to execute function: ...", "Timeout when executing method ...", JDO and IO
# exceptions, denied access). Only messages known to be about the request count as a rejection. All others may
# pass, so the call repeats.
_REJECTION: Final = re.compile(
    r"The table has been modified|parameter value for key|Cannot change stats state|transactional"
    r"|Filtering is supported only|is not a partitioning key|Value should be on the RHS|partition filter"
    r"|[Ii]ncorrect number of|[Ii]nvalid|is not a valid|not (a )?(legal|allowed|supported)|cannot be|can't be"
    r"|must (be|have|not)|should be located|strict managed table|already exist|does not exist|doesn't exist"
    r"|not found|No such|Unable to (alter|find|update) partition"
    r"|Number of partitions|Primary key|Foreign key|Invalid (primary|foreign) key|constraint"
)
_DATABASE_FAILURE: Final = re.compile(
    r"\b(IO|SQL\w*|JDO\w*|TProtocol|TTransport|AccessControl)Exception|NucleusDataStoreException"
    r"|rolling back to savepoint|Failed to execute function|Timeout when executing"
    r"|Communications link failure|[Dd]eadlock|Permission denied"
    r"|Unable to (acquire|obtain) (a )?(JDBC )?[Cc]onnection"
)
_FILE_FAILURE: Final = re.compile(
    r"\b(Remote|Standby|SafeMode|Retriable|Connect|SocketTimeout|NoRouteToHost|UnknownHost|EOF)Exception"
    r"|in state standby|safe mode|failed to move data due to|Unable to access"
)
"""Signs of a failed file system; a rename reports them with an InvalidOperationException."""
_REFUSED: Final = (InvalidRequest, "the metastore rejected the request")


def to_tideline_error(error: Exception, call: str, address: object) -> TidelineError:
    """Return the error of ``state.errors`` for the server's answer to ``call``."""
    if isinstance(error, TApplicationException):
        if error.type == TApplicationException.UNKNOWN_METHOD:
            return Unsupported("the metastore does not support the call", call=call, address=str(address))
        return _server_fault("the metastore answered with an internal error", error, call, address)
    if _has_failed(type(error).__name__, _reason(error)):
        return _server_fault("the metastore failed", error, call, address)
    cls, message = _BY_CLASS.get(_name(error, call), _REFUSED)
    return cls(message, call=call, address=str(address), hive=type(error).__name__, reason=_reason(error))


def _name(error: Exception, call: str) -> str:
    """Return the name of the exception, or the name of the exception that Hive should have raised.

    Hive 4.0 calls the table of some partition calls invalid if it does not exist. All versions reject a
    search for a partition in a table that has no partitions, or fewer partition columns.
    """
    name = type(error).__name__
    if call.startswith("get_partition") and _reason(error).startswith("Invalid partition key & values"):
        return "UnknownPartitionException"
    is_missing = name == "InvalidObjectException" and _reason(error).endswith(" table not found")
    return "UnknownTableException" if is_missing else name


def _has_failed(name: str, reason: str) -> bool:
    """Whether an exception is about the metastore's environment, and not about the request.

    Signs of a failure behind the metastore count more than words of a rejection in the same message.
    """
    if name == "InvalidOperationException":
        return _FILE_FAILURE.search(reason) is not None
    if name != "MetaException":
        return False
    behind = _DATABASE_FAILURE.search(reason) or _FILE_FAILURE.search(reason)
    return behind is not None or _REJECTION.search(reason) is None


def is_server_fault(error: Exception) -> bool:
    """Whether the server failed, as opposed to rejecting the request;
    after some failures it closes the connection.
    """
    return isinstance(error, TApplicationException) and error.type != TApplicationException.UNKNOWN_METHOD


def _server_fault(message: str, error: Exception, call: str, address: object) -> ServerFault:
    return ServerFault(message, call=call, address=str(address), reason=_reason(error))


def _reason(error: Any) -> str:
    return str(getattr(error, "message", None) or "")[:_MESSAGE_CHARS_MAX]
