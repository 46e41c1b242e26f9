"""Limits on the content of a record. Anyone who may write to the topic must not be able to exhaust memory or stop the daemon.

The defaults are several times what large installations have been seen to need, so that only hostile or broken input meets them.
Exceeding a limit raises LimitExceeded, which names the value, the limit and the remedy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest accepted input of each kind; bytes unless stated otherwise."""

    record_bytes: int = 16 * 1024 * 1024
    """One Kafka record. Kafka's own default is 1 MiB; topics that carry whole messages are often raised to 8 or 10 MiB."""
    message_bytes: int = 64 * 1024 * 1024
    """One message after decompression. A gzip bomb grows by a factor of 1000, real messages by 5 to 20."""
    json_depth: int = 64
    """Nesting of objects and lists. Messages have 4 levels; the strict JSON writer supports 254."""
    name_chars: int = 256
    """Catalog, database, table, column and constraint names: the width of the metastore's own columns."""
    path_chars: int = 8_192
    """One file entry's path, and a partition's name; HDFS refuses paths above 8,000 characters."""
    files: int = 500_000
    """File entries in one event."""
    partitions: int = 200_000
    """Partitions in one event."""
    txns: int = 100_000
    """Transactions that one OPEN_TXN opens (Hive's ``hive.txn.max.open.batch`` is 1,000), and pairs of one allocation."""

    def __post_init__(self) -> None:
        """Check that each limit admits some input and that the JSON writer supports the depth."""
        for name in self.__slots__:
            assert getattr(self, name) > 0, name
        assert self.json_depth <= 200, "orjson writes 254 levels at most"


DEFAULT_LIMITS: Final = Limits()
