"""The exceptions that metastore calls declare. All have one field, the message.

They never leave ``handlers/metastore``, which maps them to the errors of ``state.errors``.
"""
# ruff: noqa: N818 - the names are those of Hive's interface

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, resolve


class HiveException(Struct, Exception):
    """Base class of all declared exceptions."""

    message: Annotated[str | None, 1] = None

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return self.message or ""


class MetaException(HiveException):
    """A general error, and failures of the metastore's own database."""


class NoSuchObjectException(HiveException):
    """A database, table, partition or constraint does not exist."""


class AlreadyExistsException(HiveException):
    """The object already exists."""


class InvalidObjectException(HiveException):
    """An object breaks a rule."""


class InvalidOperationException(HiveException):
    """The operation is not allowed on this object."""


class InvalidInputException(HiveException):
    """An argument is invalid."""


class UnknownDBException(HiveException):
    """The database does not exist."""


class NoSuchTxnException(HiveException):
    """The transaction is unknown: it never existed, or it ended and was forgotten."""


class TxnAbortedException(HiveException):
    """The transaction was aborted."""


class NoSuchLockException(HiveException):
    """The lock does not exist."""


resolve()
