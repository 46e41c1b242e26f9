"""Reads the fields of a message: each method names the field and its type,
and raises one typed error if the value does not match.

The formats differ: a field may be absent or null (both are None here), and booleans and numbers may be JSON
values or strings. A value like a number may be a float that stands for an integer too large for the parser.
Builders of events therefore never touch raw values; they call ``number("txnid")`` or
``flag("isTruncateOp")``.

File entries have the form ``uri#checksum#cmroot#subdir``, written by the source's change manager
(``ReplChangeManager.encodeFileUri``, Hive 3.1 and later). There are always three ``#``; checksum and change
manager root are both present or both empty; ``subdir`` is the ACID directory below the table or partition.
Hive 2.3 wrote ``uri`` or ``uri#checksum``. A path that contains ``#`` is refused, because it is ambiguous and
Hive cannot read it either. The suffix ``_v<txn>`` of compacted directories stays in ``subdir``: it is part of
the location of the source file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from handlers.decoding.messages import JsonObject, Limits
from handlers.events import SourceFile
from state.errors import LimitExceeded, MalformedEvent


_INT64_END: Final = 2**63
_DIGITS: Final = re.compile(r"-?[0-9]{1,19}")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FLAGS: Final = {"true": True, "false": False}


class Fields:
    """The fields of one JSON object.
    Every method raises MalformedEvent or LimitExceeded, which name the field.
    """

    __slots__ = ("limits", "raw")

    def __init__(self, raw: JsonObject, limits: Limits) -> None:
        self.raw = raw
        self.limits = limits

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.raw.get(name)
        if value is None or type(value) is str:
            return value
        raise _wrong(name, value, "a string")

    def required_text(self, name: str) -> str:
        """Return a required string."""
        value = self.raw.get(name)
        if type(value) is str:
            return value
        raise _wrong(name, value, "a string")

    def name(self, *names: str) -> str | None:
        """Return the first field that is present, as an object name:
        lower case, bounded, without control characters.

        A blank name is an absent one: Hive 3.1 stores a space for the names that its transaction events do
        not have.
        """
        for name in names:
            value = self.text(name)
            if value and not value.isspace():
                return check_name(value, name, self.limits)
        return None

    def number(self, name: str, least: int = 0) -> int | None:
        """Return a 64-bit integer, which may be written as a string."""
        value = self.raw.get(name)
        return None if value is None else _integer(name, value, least)

    def required_number(self, name: str, least: int = 0) -> int:
        """Return a required 64-bit integer."""
        return _integer(name, self.raw.get(name), least)

    def write_id(self) -> int | None:
        """Return the write id; the metastore writes -1 for "none"."""
        value = self.number("writeId", least=-1)
        return None if value == -1 else value

    def flag(self, name: str) -> bool | None:
        """Return a boolean, which may be written as a string in any case."""
        value = self.raw.get(name)
        if value is None or type(value) is bool:
            return value
        if type(value) is str and value.lower() in _FLAGS:
            return _FLAGS[value.lower()]
        raise _wrong(name, value, "true or false")

    def items(self, name: str, limit: str) -> list[Any]:
        """Return a list with at most as many items as the named limit allows; [] if it is absent."""
        value = self.raw.get(name)
        if value is None:
            return []
        if type(value) is not list:
            raise _wrong(name, value, "a list")
        most = getattr(self.limits, limit)
        if len(value) > most:
            raise LimitExceeded(
                f"the list {name} exceeds its limit", limit=limit, limit_items=most, items=len(value)
            )
        return value

    def texts(self, name: str, limit: str) -> tuple[str, ...]:
        """Return a list of strings."""
        values = self.items(name, limit)
        for value in values:
            if type(value) is not str:
                raise _wrong(name, value, "a list of strings")
        return tuple(values)

    def require(self, name: str) -> None:
        """Raise MalformedEvent if the field is absent or null."""
        if self.raw.get(name) is None:
            raise _wrong(name, None, "present")

    def names(self, name: str, limit: str) -> tuple[str, ...]:
        """Return a list of object names in lower case."""
        return tuple(check_name(value, name, self.limits) for value in self.texts(name, limit))

    def numbers(self, name: str, limit: str, least: int = 0) -> tuple[int, ...]:
        """Return a list of 64-bit integers."""
        return tuple(_integer(name, value, least) for value in self.items(name, limit))

    def spec(self, name: str) -> dict[str, str] | None:
        """Return partition columns with their values, in the order of the message."""
        value = self.raw.get(name)
        return None if value is None else _spec(name, value, self.limits)

    def specs(self, name: str) -> tuple[dict[str, str], ...]:
        """Return a list of partition columns with their values."""
        return tuple(_spec(name, value, self.limits) for value in self.items(name, "partitions"))


def check_name(value: str, field: str, limits: Limits) -> str:
    """Return an object name in lower case; raise MalformedEvent or LimitExceeded.

    Names with control characters are refused because names end up in logs, paths and metric labels; the
    metastore allows none. Quotes, slashes and backticks are legal in Hive 4: escape them when building a path
    or a statement.
    """
    if len(value) > limits.name_chars:
        raise LimitExceeded(
            f"the name in {field} exceeds its limit",
            limit="name_chars",
            limit_chars=limits.name_chars,
            chars=len(value),
        )
    if _CONTROL.search(value):
        raise MalformedEvent(f"the name in {field} contains control characters", value=value)
    return value.lower()


def fill_names(
    common: dict[str, Any], message: Fields, db_field: str, table_field: str | None = None
) -> dict[str, Any]:
    """Return ``common`` with names from the message if the notification has none."""
    if common["db"] is None:
        common = common | {"db": message.name(db_field)}
    if table_field is not None and common["table"] is None:
        common = common | {"table": message.name(table_field)}
    return common


def _integer(name: str, value: object, least: int) -> int:
    number = value
    if type(value) is str and _DIGITS.fullmatch(value):
        number = int(value)
    if type(number) is not int or not least <= number < _INT64_END:
        raise _wrong(name, value, f"an integer from {least} to {_INT64_END - 1}")
    return number


def _spec(name: str, value: object, limits: Limits) -> dict[str, str]:
    if type(value) is not dict or not value:
        raise _wrong(name, value, "an object of partition columns and values")
    for column, text in value.items():
        if type(text) is not str:
            raise _wrong(name, text, "a partition value as a string")
        if len(text) > limits.path_chars:
            raise LimitExceeded(
                f"a partition value in {name} exceeds its limit", limit="path_chars", chars=len(text)
            )
        check_name(column, name, limits)
    return value


def _wrong(name: str, value: object, expected: str) -> MalformedEvent:
    if value is None:
        return MalformedEvent(f"the field {name} is missing", expected=expected)
    return MalformedEvent(f"the field {name} is not {expected}", value=repr(value)[:100])


def parse_source_files(entries: Iterable[str], limits: Limits) -> tuple[SourceFile, ...]:
    """Parse the entries of a file list; raise MalformedEvent or LimitExceeded."""
    return tuple(parse_source_file(entry, limits) for entry in entries)


def parse_source_file(entry: str, limits: Limits) -> SourceFile:
    """Parse one entry of Hive 3.1 or later."""
    pieces = entry.split("#")
    if len(pieces) != 4:
        raise MalformedEvent("a file entry is not uri#checksum#cmroot#subdir", entry=entry[:300])
    uri, checksum, cm_root, subdir = pieces
    return _check_file(SourceFile(uri, checksum or None, cm_root or None, subdir), limits)


def parse_plain_source_files(entries: Iterable[str], limits: Limits) -> tuple[SourceFile, ...]:
    """Parse the entries of Hive 2.3: ``uri`` or ``uri#checksum``."""
    return tuple(_parse_plain_source_file(entry, limits) for entry in entries)


def pair_with_checksums(
    uris: tuple[str, ...], checksums: tuple[str, ...], limits: Limits
) -> tuple[SourceFile, ...]:
    """Join the two parallel lists of an insert request; the list of checksums may be empty."""
    if checksums and len(checksums) != len(uris):
        raise MalformedEvent(
            "the lists of files and checksums differ in length", files=len(uris), checksums=len(checksums)
        )
    pairs = zip(uris, checksums, strict=True) if checksums else ((uri, "") for uri in uris)
    return tuple(_check_file(SourceFile(uri, checksum or None), limits) for uri, checksum in pairs)


def _parse_plain_source_file(entry: str, limits: Limits) -> SourceFile:
    pieces = entry.split("#")
    if len(pieces) > 2:
        return parse_source_file(entry, limits)
    return _check_file(SourceFile(pieces[0], (pieces[1] or None) if len(pieces) == 2 else None), limits)


def _check_file(file: SourceFile, limits: Limits) -> SourceFile:
    if not file.uri:
        raise MalformedEvent("a file entry has no path")
    longest = max(len(file.uri), len(file.cm_root or ""), len(file.subdir), len(file.checksum or ""))
    if longest > limits.path_chars:
        raise LimitExceeded(
            "a file entry exceeds its limit",
            limit="path_chars",
            limit_chars=limits.path_chars,
            chars=longest,
        )
    return file
