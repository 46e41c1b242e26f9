"""The metastore client: the calls of all topic modules on one connection."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Self

from handlers.metastore.addresses import REPLY_BYTES_MAX
from handlers.metastore.notifications import NotificationCalls
from handlers.metastore.objects.constraints import ConstraintCalls
from handlers.metastore.objects.databases import DatabaseCalls
from handlers.metastore.objects.partitions import PartitionCalls
from handlers.metastore.objects.statistics import StatisticsCalls
from handlers.metastore.objects.tables import TableCalls
from handlers.metastore.replayed_transactions import ReplayedTransactionCalls
from handlers.metastore.session import SessionOptions, allow


if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class Metastore(
    NotificationCalls,
    ReplayedTransactionCalls,
    DatabaseCalls,
    TableCalls,
    PartitionCalls,
    StatisticsCalls,
    ConstraintCalls,
):
    """A client of one metastore service, given as one address or as several that share a database.

    Connects at the first call. Not thread-safe: every thread needs its own ``clone``. Names of databases and
    tables are sent unchanged; the metastore stores them in lower case.
    """

    def __init__(
        self,
        uris: str | Sequence[str],
        *,
        connect_timeout_s: float = 10,
        timeout_s: float = 60,
        user: str | None = None,
        identifier: str = "tideline",
        reply_bytes_max: int = REPLY_BYTES_MAX,
        guard: Callable[[], None] = allow,
    ) -> None:
        addresses = uris.split(",") if isinstance(uris, str) else uris
        options = SessionOptions(
            connect_timeout_s=connect_timeout_s,
            timeout_s=timeout_s,
            user=user,
            identifier=identifier,
            reply_bytes_max=reply_bytes_max,
        )
        super().__init__(addresses, options, guard)

    def clone(self, *, guard: Callable[[], None] | None = None) -> Self:
        """Return a client with its own connection to the same metastore,
        with the same guard or another one.
        """
        return type(self)(self._uris, **asdict(self.options), guard=guard or self.guard)
