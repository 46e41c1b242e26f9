"""Writes table properties without losing concurrent changes of other writers.

``alter_table`` replaces the whole table, so the table must not change between reading and writing it. Two comparisons find changes:

1. Immediately before the write, the table is read once more and compared in every field with the one that the write is based on.
   This finds changes by Thrift clients such as Lens too, which send the DDL time back as they read it.
2. The metastore compares one property atomically with the write (HIVE-26882: 4.x, and later releases of 2.3 and 3.1):
   ``transient_lastDdlTime``, which every DDL statement changes, or, where a table has none, Tideline's event id. An older metastore
   accepts the write unconditionally.

A Thrift client that keeps the DDL time and writes between the second reading and the write, two successive calls, is not noticed here: the
metastore can compare only one property, and no property changes with every write. The event of the write shows it (``event_batch``).

The DDL time has a resolution of one second. So a table that was changed within the current second is read again in the next one:
only then does every later change alter its DDL time.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from handlers.metastore.hive_version import V4_0
from handlers.structs.objects import Table
from state.errors import Conflict, InvalidRequest
from state.timelines.table_properties import APPLIED_EVENT, DDL_TIME


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.metastore.client import Metastore


ATTEMPTS: Final = 3
SKEW_S: Final = 2.0
"""How far a DDL time may be ahead of this clock and is still waited for."""
_MODIFIED: Final = re.compile("The table has been modified|parameter value for key")
"""The metastore's answer where the compared property has changed (HIVE-26882); a missing permission may say "cannot be modified"."""
_ENVIRONMENT: Final = {"DO_NOT_UPDATE_STATS": "true"}


def write_properties(
    metastore: Metastore,
    name: str,
    compute: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    before_write: Callable[[], None] = lambda: None,
) -> bool:
    """Write the properties that ``compute`` returns for the current ones; return False where only the event id would change.

    ``before_write`` is called once something has to be written. Raises NotFound, Conflict where other writers keep changing the table,
    and InvalidRequest where the metastore refuses the change.
    """
    db, _, table_part = name.partition(".")
    for _ in range(ATTEMPTS):
        before = _read_stable_table(metastore, db, table_part)
        old = before.parameters or {}
        new = compute(old)
        if all(old.get(key) == value for key, value in new.items() if key != APPLIED_EVENT):
            return False
        expected = _find_compared(old)
        rest = {key: value for key, value in old.items() if key not in new}
        table = Table(**before.set_fields())
        table.parameters = {
            **rest,
            **_advance_ddl_time(old),
            **new,
        }  # new properties last, and within a timeline its class last
        before_write()
        if metastore.get_table(db, table_part) != before:
            continue
        try:
            _alter(metastore, db, table_part, table, expected)
        except InvalidRequest as error:
            if not _MODIFIED.search(str(error)):
                raise
        else:
            return True
    raise Conflict("other writers keep changing the table", table=name, attempts=ATTEMPTS)


def _read_stable_table(metastore: Metastore, db: str, table_part: str) -> Table:
    """Return the table, read in a later second than its last change (as far as clocks agree)."""
    table = metastore.get_table(db, table_part)
    age_s = time.time() - _ddl_time_s(table.parameters or {})
    if 0 <= age_s < 1 or -SKEW_S < age_s < 0:
        time.sleep(1 - age_s)
        table = metastore.get_table(db, table_part)
    return table


def _ddl_time_s(old: Mapping[str, str]) -> int:
    text = old.get(DDL_TIME, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def _find_compared(old: Mapping[str, str]) -> tuple[str, str] | None:
    key = DDL_TIME if DDL_TIME in old else APPLIED_EVENT
    return (key, old[key]) if key in old else None


def _advance_ddl_time(old: Mapping[str, str]) -> dict[str, str]:
    """Return a later DDL time: the compared property must change, so that other writers notice this change."""
    before_s = _ddl_time_s(old)
    return {DDL_TIME: str(max(int(time.time()), before_s + 1))} if before_s else {}


def _alter(
    metastore: Metastore, db: str, table_part: str, table: Table, expected: tuple[str, str] | None
) -> None:
    environment = dict(_ENVIRONMENT)
    if expected is not None and metastore.hive_version < V4_0:
        environment |= {"expected_parameter_key": expected[0], "expected_parameter_value": expected[1]}
        expected = None
    metastore.alter_table(db, table_part, table, environment=environment, expected=expected)
