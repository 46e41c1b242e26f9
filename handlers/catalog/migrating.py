"""Changing the storage form of one timeline (LENS-489): one ``alter_table`` from the runs in memory, no other timeline touched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.catalog.properties import write_properties
from handlers.failpoints import failpoint
from state.errors import NotFound
from state.timelines.storage_forms import form_named
from state.timelines.timeline import migrated


if TYPE_CHECKING:
    from handlers.catalog.timelines import TimelineFollower
    from handlers.metastore import Metastore
    from state.store import Store
    from state.timelines.periods import UpdatePeriod


@dataclass(frozen=True, slots=True)
class Migrated:
    """What a migration did; repeating one changes nothing."""

    table: str
    column: str
    period: str
    before: str
    after: str
    written: bool
    """Whether the table's properties had to change."""


@dataclass(frozen=True, slots=True)
class TimelineName:
    """One timeline of one table."""

    table: str
    period: UpdatePeriod
    column: str


def migrate(
    store: Store, follower: TimelineFollower, metastore: Metastore, target: str, name: TimelineName, form: str
) -> Migrated:
    """Write the timeline ``name`` in ``form`` into the properties of ``target``, then remember the form.

    Raises ConfigError for an unknown form, NotFound where there is no such timeline, InvalidRequest where the table is
    changed by others again and again. After a crash between the two steps, migrate again.
    """
    chosen = form_named(form)
    timeline = follower.timelines.timeline(name.table, name.period, name.column)
    if timeline is None:
        raise NotFound(
            "there is no such timeline", table=name.table, column=name.column, period=name.period.lens_name
        )
    written = write_properties(metastore, target, lambda properties: migrated(timeline, chosen, properties))
    failpoint("catalog.migrated")
    with store.transaction() as txn:
        change = follower.timelines.change(txn)
        change.set_form(name.table, name.period, timeline.column, chosen.name)
    change.publish()
    return Migrated(
        name.table, timeline.column, name.period.lens_name, timeline.form.name, chosen.name, written
    )
