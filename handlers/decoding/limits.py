"""Limits on what a record may hold: whoever may write to the topic must not be able to fill memory or stop the daemon.

The defaults are several times what a large installation has been seen to need, so that they only meet hostile or broken
input. Every limit is answered by LimitExceeded, which names the value, the limit and what to do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The largest input of each kind; bytes unless said otherwise."""

    record_bytes: int = 16 * 1024 * 1024
    """One Kafka record. Kafka's own default is 1 MiB; topics that carry whole messages are often raised to 8 or 10 MiB."""
    message_bytes: int = 64 * 1024 * 1024
    """One message after decompression. A gzip bomb grows a thousandfold, real messages five- to twentyfold."""
    json_depth: int = 64
    """Objects and lists inside each other. Messages have 4 levels; writing them back strictly ends at 254."""
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
        """Refuse values that would refuse every input, or that the JSON writer cannot honour."""
        for name in self.__slots__:
            assert getattr(self, name) > 0, name
        assert self.json_depth <= 200, "orjson writes 254 levels at most"


DEFAULT_LIMITS: Final = Limits()
