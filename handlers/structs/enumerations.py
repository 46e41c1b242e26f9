"""The constants of Hive's enums. On the wire and in structs they are plain ints."""

from __future__ import annotations

from enum import IntEnum


class PrincipalType(IntEnum):
    """What an owner or grantee is."""

    USER = 1
    ROLE = 2
    GROUP = 3


class DatabaseType(IntEnum):
    """Whether a database lives here or behind a connector."""

    NATIVE = 1
    REMOTE = 2


class SerdeType(IntEnum):
    """Where a SerDe comes from."""

    HIVE = 1
    SCHEMA_REGISTRY = 2


class TxnType(IntEnum):
    """Why a transaction was opened. REPL_CREATED makes the metastore read ids as those of the source."""

    DEFAULT = 0
    REPL_CREATED = 1
    READ_ONLY = 2
    COMPACTION = 3
    MATER_VIEW_REBUILD = 4
    SOFT_DELETE = 5
    REBALANCE_COMPACTION = 6


class TxnState(IntEnum):
    """State of a transaction that is listed."""

    COMMITTED = 1
    ABORTED = 2
    OPEN = 3


class CompactionType(IntEnum):
    """What a compaction does."""

    MINOR = 1
    MAJOR = 2
    REBALANCE = 3
    ABORT_TXN_CLEANUP = 4
    SMART_OPTIMIZE = 5


class ClientCapability(IntEnum):
    """Features of Hive 2 and 3 clients."""

    TEST_CAPABILITY = 1
    INSERT_ONLY_TABLES = 2
