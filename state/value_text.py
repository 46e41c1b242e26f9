"""Values as operators write them, for messages: without Python syntax for any value of a context.

``repr`` and ``str`` of dicts, lists and exceptions are for programmers. Operators read messages, so this
function writes ``a: refused; b: timed out`` for a dict of errors, ``x, y`` for a list, ``yes`` for True and
``2 min`` for a timedelta.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Final


_ERRNO: Final = re.compile(r"\[Errno -?\d+\] ")
_NESTED: Final = re.compile(r"[,;]")


def value_text(value: object) -> str:  # noqa: C901, PLR0911 - one line for each kind of value
    """Return a value as text of a message."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case Enum():
            return value_text(value.value)
        case str():
            return plain_text(value) or "(empty)"
        case bytes():
            return value.decode("utf-8", "backslashreplace") or "(empty)"
        case timedelta():
            return _duration(value)
        case datetime():
            return value.isoformat(" ", "seconds")
        case BaseException():
            return _error(value)
        case Mapping():
            return (
                "; ".join(f"{value_text(key)}: {value_text(each)}" for key, each in value.items()) or "none"
            )
        case list() | tuple() | set() | frozenset():
            texts = [
                value_text(each) for each in (value if isinstance(value, list | tuple) else sorted(value))
            ]
            return ("; " if any(map(_NESTED.search, texts)) else ", ").join(texts) or "none"
        case _:
            return str(value)


def plain_text(text: str) -> str:
    """Return a text without the numbers that Python writes before errors of the operating system."""
    return _ERRNO.sub("", text)


def _error(error: BaseException) -> str:
    message = getattr(error, "message", None)
    return plain_text(message if isinstance(message, str) else str(error)) or type(error).__name__


def _duration(value: timedelta) -> str:
    seconds = value.total_seconds()
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds and not seconds % size:
            return f"{seconds / size:g} {unit}"
    return f"{seconds:g} s"


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return a number with its noun, such as ``1 hour`` or ``2 hours``."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
