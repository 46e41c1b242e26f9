"""Writing table properties without losing what somebody else writes meanwhile.

``alter_table`` replaces the whole table, so between reading and writing it nobody else may have changed it. Where the
metastore can compare and set (HIVE-26882: 4.x, and the later 2.3 and 3.1) a property that every DDL statement changes is
compared: ``transient_lastDdlTime``, or, where a table has none, our own event id. An older one takes the change unconditionally.

The DDL time counts whole seconds, so a table that was changed in this very second is read again in the next one: only then is
every later change to be seen in it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from handlers.metastore.hive_version import V4_0
from state.errors import InvalidRequest
from state.timelines.table_properties import APPLIED_EVENT


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from handlers.metastore.client import Metastore
    from handlers.structs.objects import Table


ATTEMPTS: Final = 3
SKEW_S: Final = 2.0
"""How far a DDL time may lie ahead of this clock and still be waited for."""
_DDL_TIME: Final = "transient_lastDdlTime"
_ENVIRONMENT: Final = {"DO_NOT_UPDATE_STATS": "true"}


def write_properties(
    metastore: Metastore,
    name: str,
    wanted: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    before_write: Callable[[], None] = lambda: None,
) -> bool:
    """Set what ``wanted`` returns for a table's properties, in one call; False where all but the event id stood there.

    ``before_write`` is called as soon as it is known that something will be written. Raises NotFound, and InvalidRequest
    where others change the table again and again, or where the metastore refuses the change.
    """
    db, _, table_part = name.partition(".")
    for attempt in range(1, ATTEMPTS + 1):
        table = _settled_table(metastore, db, table_part)
        old = table.parameters or {}
        new = wanted(old)
        if all(old.get(key) == value for key, value in new.items() if key != APPLIED_EVENT):
            return False
        expected = _expected(old)
        rest = {key: value for key, value in old.items() if key not in new}
        table.parameters = {
            **rest,
            **_moved(old),
            **new,
        }  # ours last, the class of a timeline last of its keys
        before_write()
        try:
            _alter(metastore, db, table_part, table, expected)
        except InvalidRequest:
            if attempt == ATTEMPTS:
                raise
        else:
            return True
    raise AssertionError("unreachable")


def _settled_table(metastore: Metastore, db: str, table_part: str) -> Table:
    """Return the table, read in a later second than that of its last change (as far as clocks agree)."""
    table = metastore.get_table(db, table_part)
    age_s = time.time() - _ddl_time_s(table.parameters or {})
    if 0 <= age_s < 1 or -SKEW_S < age_s < 0:
        time.sleep(1 - age_s)
        table = metastore.get_table(db, table_part)
    return table


def _ddl_time_s(old: Mapping[str, str]) -> int:
    text = old.get(_DDL_TIME, "")
    return int(text) if text.isdigit() else 0


def _expected(old: Mapping[str, str]) -> tuple[str, str] | None:
    key = _DDL_TIME if _DDL_TIME in old else APPLIED_EVENT
    return (key, old[key]) if key in old else None


def _moved(old: Mapping[str, str]) -> dict[str, str]:
    """A DDL time after the old one: what is compared has to change, and other writers then see that something did."""
    before_s = _ddl_time_s(old)
    return {_DDL_TIME: str(max(int(time.time()), before_s + 1))} if before_s else {}


def _alter(
    metastore: Metastore, db: str, table_part: str, table: Table, expected: tuple[str, str] | None
) -> None:
    environment = dict(_ENVIRONMENT)
    if expected is not None and metastore.hive_version < V4_0:
        environment |= {"expected_parameter_key": expected[0], "expected_parameter_value": expected[1]}
        expected = None
    metastore.alter_table(db, table_part, table, environment=environment, expected=expected)
