"""Hours as partitions: their partition columns, each with a pattern, and their directories.

An hour is its start in seconds since 1970 (UTC), a multiple of 3,600. A partition column holds the hour in a
``strftime`` pattern, as text or as a number without leading zeros (as Hive writes an INT into a partition's
name).

Every partition has its own directory ``<table>/<column>=<value>/.../v<N>``, which follows from its name. So
two partitions never share a location; Hive would read one of them and silently drop the rows of the other
(reference: flat-tables-hive4.md §3.2).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final
from urllib.parse import unquote

from handlers.files.paths import Location
from state.errors import BadPartitionValue, InvalidRequest
from streaming.settings import DEFAULT_PARTITION_COLUMNS, PartitionColumn


HOUR_S: Final = 3_600
_VERSION: Final = re.compile(r"v([1-9]\d{0,8})", re.ASCII)
_UNSAFE: Final = re.compile(r"[\x00-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""Characters that Hive escapes in the name of a partition's directory (FileUtils.charToEscape)."""


@dataclass(frozen=True, slots=True)
class HourColumns:
    """The partition columns of a table."""

    columns: tuple[PartitionColumn, ...] = DEFAULT_PARTITION_COLUMNS

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns in order."""
        return tuple(column.name for column in self.columns)

    def values(self, hour: int) -> tuple[str, ...]:
        """Return the values of the hour's partition."""
        assert hour % HOUR_S == 0, hour
        moment = datetime.fromtimestamp(hour, UTC)
        texts = (moment.strftime(column.pattern) for column in self.columns)
        return tuple(
            str(int(text)) if column.type == "int" else text
            for column, text in zip(self.columns, texts, strict=True)
        )

    def hour(self, values: Sequence[str]) -> int:
        """Return the hour with these values. Raises BadPartitionValue if they do not name an hour."""
        patterns = "\0".join(column.pattern for column in self.columns)
        try:
            # DTZ007: this line sets the zone
            moment = datetime.strptime("\0".join(values), patterns).replace(tzinfo=UTC)  # noqa: DTZ007
        except ValueError as error:
            raise _not_an_hour(values, self.names) from error
        hour = int(moment.timestamp())
        if hour % HOUR_S or self.values(hour) != tuple(values):
            raise _not_an_hour(values, self.names)
        return hour

    def partition_name(self, hour: int) -> str:
        """Return the metastore's name of the partition, which is also its relative directory:
        ``yyyy_mm_dd=2016-04-18/hh=21``.
        """
        pairs = zip(self.names, self.values(hour), strict=True)
        return "/".join(f"{name}={_UNSAFE.sub(_escape, value)}" for name, value in pairs)

    def parse_name(self, name: str) -> int:
        """Return the hour of a partition's name. Raises BadPartitionValue if it does not name an hour."""
        pairs = [part.partition("=") for part in name.split("/")]
        if tuple(unquote(key) for key, _, _ in pairs) != self.names:
            raise _not_an_hour([name], self.names)
        return self.hour([unquote(value) for _, _, value in pairs])

    def directory(self, table: Location, hour: int) -> Location:
        """Return the directory of an hour, which holds all its versions."""
        return table.join(self.partition_name(hour))

    @property
    def patterns_text(self) -> str:
        """The text of the table parameter that stores the patterns."""
        return json.dumps([column.pattern for column in self.columns])

    @classmethod
    def from_table(cls, keys: Sequence[tuple[str, str]], patterns: str) -> HourColumns:
        """Return the partition columns of a stored table from its partition keys and the parameter with the
        patterns. Raises InvalidRequest.
        """
        try:
            listed = json.loads(patterns)
        except ValueError:
            listed = None
        if not isinstance(listed, list) or len(listed) != len(keys) or not all(map(_is_text, listed)):
            raise InvalidRequest("invalid patterns of the partition columns", patterns=patterns[:200])
        return cls(
            tuple(PartitionColumn(name, kind, text) for (name, kind), text in zip(keys, listed, strict=True))
        )


def parse_version(location: Location) -> int | None:
    """Return N for a directory ``v<N>``, None for any other."""
    match = _VERSION.fullmatch(location.name)
    return int(match[1]) if match else None


def version_directory(hour_directory: Location, version: int) -> Location:
    """Return the directory of one version of an hour."""
    return hour_directory.child(f"v{version}")


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _escape(match: re.Match[str]) -> str:
    return f"%{ord(match[0]):02X}"


def _not_an_hour(values: Sequence[str], columns: Sequence[str]) -> BadPartitionValue:
    return BadPartitionValue(
        "a partition of the flat table does not name an hour",
        values=list(values)[:8],
        columns=list(columns),
        hint="The partition was added manually. Drop it; its data remains.",
    )
