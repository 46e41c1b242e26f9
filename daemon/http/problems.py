"""Errors as RFC 9457 describes them (``application/problem+json``), with the codes of the error tree.

``code``, ``message``, ``hint`` and ``context`` are members in addition to those of the standard, so that a
client of Tideline raises the same error as the daemon.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from daemon.process.inbox import error_to_json
from state.errors import (
    BadInput,
    ConfigError,
    Forbidden,
    NotFound,
    NotYet,
    Refused,
    TidelineError,
    Unauthenticated,
)


PROBLEM: Final = "application/problem+json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request failed."""

    type: str
    """``urn:tideline:error:`` with the code; docs/ERRORS.md describes each."""
    title: str
    """The code in words."""
    status: int
    detail: str
    """The message."""
    code: str
    message: str
    hint: str
    """The next step; may be empty."""
    context: dict[str, Any]
    """The values that the message is about."""


def problem_of(error: TidelineError) -> dict[str, Any]:
    """Return the answer to a request that fails with ``error`` (``Problem``)."""
    return {
        "type": f"urn:tideline:error:{error.code}",
        "title": error.code.replace("-", " ").capitalize(),
        "status": status_of(error),
        "detail": error.message,
        **error_to_json(error),
    }


def status_of(error: TidelineError) -> int:
    """Return the HTTP status of an error."""
    match error:
        case Unauthenticated():
            return 401
        case Forbidden():
            return 403
        case NotFound():
            return 404
        case NotYet():
            return 504
        case BadInput() | Refused() | ConfigError():
            return 400
    return 503
