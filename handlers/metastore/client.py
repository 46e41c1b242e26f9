"""The metastore client: the calls of all topic modules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Self

from handlers.metastore.addresses import REPLY_BYTES_MAX
from handlers.metastore.connection_pool import CONNECT_TIMEOUT_S, ConnectionPool
from handlers.metastore.notifications import NotificationCalls
from handlers.metastore.objects.constraints import ConstraintCalls
from handlers.metastore.objects.databases import DatabaseCalls
from handlers.metastore.objects.partitions import PartitionCalls
from handlers.metastore.objects.statistics import StatisticsCalls
from handlers.metastore.objects.tables import TableCalls
from handlers.metastore.replayed_transactions import ReplayedTransactionCalls
from handlers.metastore.session import SessionOptions, allow


class Metastore(
    NotificationCalls,
    ReplayedTransactionCalls,
    DatabaseCalls,
    TableCalls,
    PartitionCalls,
    StatisticsCalls,
    ConstraintCalls,
):
    """A client of one metastore service, given as one address, as several that share a database, or as the
    pool of its connections.

    Connects at the first call. Given addresses, it has one connection, and every thread needs its own
    ``clone``. Given a pool, it is thread-safe, and holds a connection only during a call, as its clones do.
    It sends names of databases and tables unchanged; the metastore stores them in lower case.
    """

    def __init__(
        self,
        service: str | Sequence[str] | ConnectionPool,
        *,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        timeout_s: float = 60,
        reply_bytes_max: int = REPLY_BYTES_MAX,
        guard: Callable[[], None] = allow,
    ) -> None:
        options = SessionOptions(
            connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s,
            reply_bytes_max=reply_bytes_max,
        )
        if isinstance(service, str):
            service = service.split(",")
        super().__init__(service, options, guard)

    def clone(self, *, guard: Callable[[], None] | None = None) -> Self:
        """Return a client of the same metastore, with the same guard or another one. It has its own
        connection, or shares the pool.
        """
        return type(self)(self._service, **asdict(self.options), guard=guard or self.guard)
