"""The load of one table: copies it from the source as of one event, while everything else streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from handlers.replication.loading.load_tools import SilentProgress
from state.errors import Unsupported


if TYPE_CHECKING:
    from handlers.replication.loading.load_tools import LoadedTable, LoadProgress, LoadTools
    from handlers.replication.loading.table_loads import TableLoad


def load_table(load: TableLoad, tools: LoadTools, progress: LoadProgress | None = None) -> LoadedTable:
    """Load the table of ``load`` and return as of which event and write id; a repetition continues an unfinished load.

    It runs in any thread and uses nothing of the replay's context. If the source has no such table, the target's is dropped,
    and the result says so. The caller records the result with ``TableLoads.finish``, and replays the table's events after it.

    Raises TransactionsOpen, SourceBusy, Interrupted and other transient errors: the table keeps waiting, and the call is
    repeated later. Other errors are the table's own, such as UnsafePath.
    """
    progress = progress or SilentProgress()
    tools.step()
    raise Unsupported("tables cannot be loaded yet", table=load.table)
