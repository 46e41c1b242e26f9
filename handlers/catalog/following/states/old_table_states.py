"""Migrates the states of tables as version 1 of the state file stored them: under four keys for each table, now under one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import orjson
import structlog

from handlers.catalog.following.states.table_state import (
    PostponedLoad,
    RequestedLoad,
    TableState,
    parse_known,
    parse_progress,
)
from handlers.catalog.following.states.table_states import STATES
from state.errors import StateCorrupt
from state.store import Transaction, prefix_end


if TYPE_CHECKING:
    from collections.abc import Mapping


log = structlog.get_logger(__name__)
_TABLES: Final = b"ct/t/"
_LOADS: Final = b"ct/l/"
_PROGRESS: Final = b"ct/b/"
_POSTPONED: Final = b"ct/p/"


def migrate_table_states(txn: Transaction) -> None:
    """Convert version 1 of a catalog's state to version 2; raise StateCorrupt where it cannot be read."""
    tables, loads = _take(txn, _TABLES), _take(txn, _LOADS)
    progress, postponed = _take(txn, _PROGRESS), _take(txn, _POSTPONED)
    try:
        for name in tables.keys() | loads.keys():
            state = TableState(
                known=parse_known(orjson.loads(tables[name])) if name in tables else None,
                load=RequestedLoad(loads[name].decode()) if name in loads else None,
                progress=parse_progress(orjson.loads(progress[name])) if name in progress else None,
                postponed=PostponedLoad(**orjson.loads(postponed[name])) if name in postponed else None,
            )
            txn.put(STATES + name.encode(), state.to_bytes())
    except (TypeError, KeyError, orjson.JSONDecodeError) as error:
        raise StateCorrupt("the state of a table cannot be read", reason=str(error)) from error
    log.info("state of the catalog migrated", tables=len(tables), waiting=len(loads), version=2)


def _take(txn: Transaction, prefix: bytes) -> Mapping[str, bytes]:
    """Return and delete the entries whose keys start with ``prefix``."""
    found = {key[len(prefix) :].decode(): value for key, value in txn.scan(prefix, prefix_end(prefix))}
    txn.delete_range(prefix, prefix_end(prefix))
    return found
