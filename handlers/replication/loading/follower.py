"""The follower's side of loads: which tables wait for one, and what is recorded when one is finished.

All of it runs in the thread that replays events, between two batches. What a request forgets and adds is recorded in the same
store transaction, so that after a crash a table is either followed, quarantined or waiting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.errors import NotFound


if TYPE_CHECKING:
    from collections.abc import Iterable

    from handlers.replication.context import Context
    from handlers.replication.loading.load_tools import LoadedTable
    from handlers.replication.loading.table_loads import Reason
    from handlers.replication.transaction_files import TransactionFiles


def request_loads(
    tables: Iterable[str], reason: Reason, context: Context, files: TransactionFiles
) -> tuple[str, ...]:
    """Make tables wait for a load, and forget what replay knows of them; return them. Those that already wait stay as they are.

    Raises NotFound if the policy does not cover one of them, and then changes nothing.
    """
    chosen = tuple(dict.fromkeys(tables))
    for table in chosen:
        if not context.policy.covers(context.policy.source_db, table):
            raise NotFound(
                "the policy does not replicate this table",
                policy=context.policy.name,
                table=table,
                hint="Check the table's name and the policy's table patterns.",
            )
    for table in chosen:
        if not context.loads.is_waiting(table):
            _forget(table, context, files)
            context.loads.request(table, reason)
    return chosen


def _forget(table: str, context: Context, files: TransactionFiles) -> None:
    """Forget a table whose rows will be replaced. Transactions that wrote into it are still ended on the target."""
    files.discard_table(table)
    context.quarantine.remove(table)
    context.write_ids.drop_table(f"{context.policy.source_db}.{table}")
    context.table_cache.forget(table)


def finish_load(loaded: LoadedTable, context: Context) -> None:
    """Record a load as of an event that replay has not reached yet: replay skips the table's events until then."""
    context.table_cache.forget(loaded.table)
    context.loads.finish(loaded.table, loaded.event_id, loaded.write_id)
