"""The exceptions that metastore calls declare. All have one field, the message.

They never leave ``handlers/metastore``, which translates them to the tree of ``state.errors``.
"""
# ruff: noqa: N818 - the names are those of Hive's interface

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, resolve


class HiveException(Struct, Exception):
    """What all of them have in common."""

    message: Annotated[str | None, 1] = None

    def __hash__(self) -> int:
        return id(self)

    def __str__(self) -> str:
        return self.message or ""


class MetaException(HiveException):
    """The general refusal, and the answer to a failing database."""


class NoSuchObjectException(HiveException):
    """A database, table, partition or constraint is not there."""


class AlreadyExistsException(HiveException):
    """It is there already."""


class InvalidObjectException(HiveException):
    """An object breaks a rule."""


class InvalidOperationException(HiveException):
    """The operation is not allowed on this object."""


class InvalidInputException(HiveException):
    """An argument makes no sense."""


class UnknownDBException(HiveException):
    """The database is not there."""


class NoSuchTxnException(HiveException):
    """The transaction is unknown, or was committed or aborted and forgotten."""


class TxnAbortedException(HiveException):
    """The transaction was aborted."""


class NoSuchLockException(HiveException):
    """The lock is not there."""


resolve()
