"""Writes table properties without losing concurrent changes of other writers.

``alter_table`` replaces the whole table, so the table must not change between reading and writing it. Two
comparisons find changes:

1. Immediately before the write, the writer reads the table once more, and compares every field with the state
   that the write is based on. This finds changes by Thrift clients such as Lens too, which send the DDL time
   back as they read it.
2. The metastore compares one property atomically with the write (HIVE-26882: 4.x, and later releases of 2.3
   and 3.1): ``transient_lastDdlTime``, which every DDL statement changes, or, if a table has none,
   Tideline's event id. An older metastore accepts the write unconditionally.

A Thrift client that keeps the DDL time and writes between the second reading and the write, two successive
calls, goes unnoticed here: the metastore can compare only one property, and no property changes with every
write. The event of the write shows it (``event_batch``).

The DDL time has a resolution of one second. So a table changed within the current second needs another
reading in the next one: only then does every later change alter its DDL time.

``migrate`` changes the storage form of one timeline (LENS-489). One ``alter_table`` writes the runs in memory
in the new form, which does not touch any other timeline; then this stores the form.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Final

from handlers.catalog.following.background import BackgroundCalls, await_in_steps
from handlers.catalog.timelines.timeline_follower import TimelineFollower
from handlers.failpoints import failpoint
from handlers.metastore.calls import V4_0
from handlers.metastore.client import Metastore
from handlers.structs.objects import Table
from state.errors import Conflict, InvalidRequest, NotFound
from state.store import Store
from state.timelines.periods import UpdatePeriod
from state.timelines.storage_forms import find_form
from state.timelines.table_properties import APPLIED_EVENT, DDL_TIME
from state.timelines.timeline import Timeline, build_form_properties


ATTEMPTS: Final = 3
SKEW_S: Final = 2.0
"""Longest wait for a DDL time that is ahead of this clock."""
_MODIFIED: Final = re.compile("The table has been modified|parameter value for key")
"""The metastore's answer if the compared property has changed (HIVE-26882); a missing permission may say
"cannot be modified"."""
_ENVIRONMENT: Final = {"DO_NOT_UPDATE_STATS": "true"}


def write_properties(
    metastore: Metastore,
    name: str,
    compute: Callable[[Mapping[str, str]], Mapping[str, str]],
    *,
    before_write: Callable[[], None] = lambda: None,
) -> bool:
    """Write the properties that ``compute`` returns for the current ones;
    return False if only the event id would change.

    ``before_write`` runs once before a write. Raises NotFound, Conflict if other writers keep changing the
    table, and InvalidRequest if the metastore refuses the change.
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
    """Return a later DDL time:
    the compared property must change, so that other writers notice this change.
    """
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


@dataclass(frozen=True, slots=True)
class MigrationResult:
    """The result of a migration; repeating a migration changes nothing."""

    table: str
    column: str
    period: str
    before: str
    after: str
    written: bool
    """Whether the table's properties had to change."""


@dataclass(frozen=True, slots=True)
class TimelineName:
    """The name of one timeline of a table."""

    table: str
    period: UpdatePeriod
    column: str


def migrate(
    store: Store,
    follower: TimelineFollower,
    calls: BackgroundCalls,
    target: str,
    name: TimelineName,
    form: str,
) -> Generator[None, None, MigrationResult]:
    """Write the timeline ``name`` in ``form`` into the properties of ``target``,
    then store the form, in steps.

    Events may apply between the steps. Raises ConfigError for an unknown form, NotFound if the timeline does
    not exist, Conflict if other writers keep changing the table. After a crash between the two steps, migrate
    again.
    """
    target_form, timeline = find_form(form), _find(follower, name)
    before = timeline.form.name
    written = yield from await_in_steps(
        calls.submit(
            lambda metastore: write_properties(
                metastore, target, lambda properties: build_form_properties(timeline, target_form, properties)
            )
        )
    )
    failpoint("catalog.migrated")
    current = _find(follower, name)  # an event may have dropped the table
    with store.transaction() as txn:
        change = follower.change(txn)
        change.set_form(name.table, name.period, current.column, target_form.name)
    change.publish()
    return MigrationResult(
        name.table, current.column, name.period.lens_name, before, target_form.name, written
    )


def _find(follower: TimelineFollower, name: TimelineName) -> Timeline:
    is_followed = name.table in follower.timelines.tables()
    timeline = follower.timelines.timeline(name.table, name.period, name.column) if is_followed else None
    if timeline is None:
        raise NotFound(
            "the timeline does not exist", table=name.table, column=name.column, period=name.period.lens_name
        )
    return timeline
