"""Formats the output of commands: aligned tables, numbers, errors, and a line of progress."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

import click

from daemon.process.docs_address import with_addresses
from daemon.process.redaction import redact
from state.errors import TidelineError
from state.value_text import value_text


def aligned_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return ``rows`` below ``header`` as lines of left-aligned columns; no lines if there are no rows."""
    return left_aligned([header, *rows]) if rows else []


def left_aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return ``rows``, which have the same length, as lines of left-aligned columns."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    ]


def table_text(header: tuple[str, ...], rows: Iterable[Sequence[str]]) -> str:
    """Return ``rows`` below ``header`` as a table.

    Text is left-aligned; columns of numbers, except the first, are right-aligned.
    """
    listed: list[Sequence[str]] = [header, *rows]
    if len(listed) == 1:
        return ""
    widths = [max(len(row[column]) for row in listed) for column in range(len(header))]
    numeric = [
        column > 0 and all(_is_number(row[column]) for row in listed[1:]) for column in range(len(header))
    ]
    return "\n".join(_line(row, widths, numeric) for row in listed)


def _line(row: Sequence[str], widths: list[int], numeric: list[bool]) -> str:
    cells = (
        text.rjust(width) if right else text.ljust(width)
        for text, width, right in zip(row, widths, numeric, strict=True)
    )
    return "  ".join(cells).rstrip()


def _is_number(text: str) -> bool:
    return text == "-" or text[:1].isdigit()


def number_text(value: int | None) -> str:
    """Return ``1,234,567``, or ``-`` for None."""
    return "-" if value is None else f"{value:,}"


def id_text(value: int | None) -> str:
    """Return an id in the form that commands accept, without separators, or ``-`` for None."""
    return "-" if value is None else str(value)


def duration_text(seconds: float | None) -> str:
    """Return a duration such as ``42 s``, ``3 min 20 s``, ``2 h 5 min`` or ``3 d 4 h``, or ``-`` for None."""
    if seconds is None:
        return "-"
    whole = max(0, round(seconds))
    for unit, size, smaller, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            rest = whole % size // part
            return f"{whole // size} {unit} {rest} {smaller}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def moment_text(time_s: float | None) -> str:
    """Return a time such as ``2024-01-31 06:00:00 UTC``, or ``-`` for None."""
    return "-" if time_s is None else time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(time_s))


def hour_text(hour: int | None) -> str:
    """Return an hour such as ``2016-04-18 21h`` in UTC, or ``-`` for None."""
    return "-" if hour is None else time.strftime("%Y-%m-%d %Hh", time.gmtime(hour))


def bytes_text(size_bytes: int) -> str:
    """Return a size such as ``17 B`` or ``1.5 MiB``: binary units, one decimal."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size_bytes} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"


_C1: Final = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""DEL, the control characters above it, which some terminals interpret, and marks of writing direction."""
_REFUSALS: Final = frozenset(
    {
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EROFS,
        errno.EIO,
        errno.EACCES,
        errno.EPERM,
        errno.EMFILE,
        errno.ENFILE,
    }
)
"""Failures of a disk, a device or a limit; these are not defects of Tideline."""


def failure_lines(error: Exception) -> list[str]:
    """Return the lines of an error: its code, message, context and hint.

    Masks secrets and escapes control characters.
    """
    described = describe_failure(error)
    lines = (f"Error [{described.code}]: {described.message}", described.context_text(), described.hint)
    head, *others = filter(None, lines)
    return [_escape(redact(with_addresses(line))) for line in (head, *(f"  {line}" for line in others))]


class _Failure(TidelineError):
    """An error that is not of the tree, as one is described."""

    def __init__(self, code: str, message: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        vars(self)["code"] = code  # of the class in the tree, and of each instance here


def describe_failure(error: Exception) -> TidelineError:
    """Return an error of the tree itself, or code, message and hint for any other error."""
    if isinstance(error, TidelineError):
        return error
    if isinstance(error, click.Abort):
        return _Failure("aborted", "the command was aborted")
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        command = "tideline" if context is None else context.command_path
        hint = f"Run '{command} --help' to see the usage."
        if isinstance(error, click.NoSuchOption) and error.option_name in {"--url", "--token-file"}:
            hint = (
                f"'{command}' must run on the daemon's machine, with its state directory and configuration."
            )
        return _Failure("usage", error.format_message(), hint)
    if isinstance(error, OSError) and error.errno in _REFUSALS:
        return _Failure(
            "operating-system",
            f"the operating system refused to read or write: {value_text(error)}",
            "Check free space, access rights and limits, then run the command again.",
        )
    return _Failure(
        "defect",
        f"{type(error).__name__}: {value_text(error)}",
        "This is a defect of Tideline. Run 'tideline --debug' with the same command and report the output.",
    )


def usage_context(error: click.UsageError, words: Sequence[str]) -> dict[str, str]:
    """Return the context of a usage error: the option, argument or command, its value, and the reason. In
    text, the message has them. The value of an option is taken from ``words``, the arguments of the command
    line.
    """
    parameter: click.Parameter | None = getattr(error, "param", None)
    key: str | None = getattr(error, "option_name", None)
    value: str | None = getattr(error, "command_name", None)
    if value is not None:
        key = "COMMAND"
    elif isinstance(parameter, click.Option):
        key = max(parameter.opts, key=len)
        value = next((word for name in parameter.opts for word in _values_of(name, words)), None)
    elif parameter is not None:
        key = parameter.human_readable_name
    values = {"key": key, "value": value, "reason": error.message or error.format_message()}
    return {name: redact(each) for name, each in values.items() if each is not None}


def _values_of(option: str, words: Sequence[str]) -> Iterator[str]:
    """Yield the values of an option in a command line, written as ``--name value`` or ``--name=value``."""
    for word, following in pairwise([*words, ""]):
        if word == option:
            yield following
        elif word.startswith(f"{option}="):
            yield word.partition("=")[2]


def escape_controls(text: str) -> str:
    """Return text with its control characters escaped, except line ends.

    Names of tables and messages of other systems may contain sequences that change the terminal or hide
    printed text.
    """
    return "\n".join(map(_escape, text.split("\n")))


def escape_json_controls(text: str) -> str:
    """Escape the control characters in JSON that JSON itself permits."""
    return _C1.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _escape(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else repr(character)[1:-1] for character in text)


_RECORD_NAMES: Final = ("name", "table", "key", "policy", "number", "path")
_STATES: Final = (
    (r"^(?:NEEDS AN OPERATOR|PROBLEMS)\b.*$", "31;1"),
    (r"^[A-Z][A-Z]+(?:  +[A-Z][A-Z ]*)+$", "1"),
    (r"(?<![\w.])(?:failed|quarantined|stopped|CRITICAL)(?![\w.])", "31"),
    (r"(?<![\w.])(?:backing-off|paused|starting|WARNING)(?![\w.])", "33"),
    (r"(?<![\w.])(?:following|running|OK)(?![\w.])", "32"),
)
"""Patterns of headings and states with their colours, as numbers of ANSI."""


def record_names(value: Any, member: str | None = None) -> list[str]:
    """Return the names of the records in an answer. The records are a given member, or the first list of
    objects.
    """
    if isinstance(value, dict):
        lists = [each for each in value.values() if isinstance(each, list)]
        objects = (each for each in lists if each and isinstance(each[0], dict))
        value = value[member] if member else next(objects, next(iter(lists), [value]))
    return [_record_name(each) for each in (value if isinstance(value, list) else [value])]


def _record_name(record: Any) -> str:
    if not isinstance(record, dict):
        return value_text(record)
    named = (record[name] for name in _RECORD_NAMES if record.get(name) is not None)
    return value_text(next(named, next(iter(record.values()), None)))


def paint(text: str) -> str:
    """Return the text with coloured headings and states if standard output is a terminal.

    ``NO_COLOR`` switches them off (no-color.org).
    """
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return text
    return "\n".join(map(_paint_line, text.split("\n")))


def _paint_line(line: str) -> str:
    for pattern, colour in _STATES:
        line, count = re.subn(pattern, f"\x1b[{colour}m\\g<0>\x1b[0m", line)
        if count and pattern.startswith("^"):
            break
    return line


class StatusLine:
    """Shows one line of progress on a terminal, and nothing elsewhere."""

    def __init__(self, *, quiet: bool) -> None:
        self._shown = not quiet and sys.stderr.isatty()

    def show(self, text: str) -> None:
        """Replace the line."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[2K{_escape(text[:200])}")
            sys.stderr.flush()

    def clear(self) -> None:
        """Remove the line."""
        self.show("")
