"""Migrates the storage form of one timeline of a table (LENS-489).

One ``alter_table`` writes the runs in memory in the new form, which does not touch any other timeline; then the form is stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from handlers.catalog.following.background import await_in_steps
from handlers.catalog.timelines.property_writer import write_properties
from handlers.failpoints import failpoint
from state.errors import NotFound
from state.timelines.storage_forms import find_form
from state.timelines.timeline import build_form_properties


if TYPE_CHECKING:
    from collections.abc import Generator

    from handlers.catalog.following.background import BackgroundCalls
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from state.store import Store
    from state.timelines.periods import UpdatePeriod
    from state.timelines.timeline import Timeline


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
    """Write the timeline ``name`` in ``form`` into the properties of ``target``, then store the form, in steps.

    Events may be applied between the steps. Raises ConfigError for an unknown form, NotFound where the timeline does not exist,
    Conflict where other writers keep changing the table. After a crash between the two steps, migrate again.
    """
    chosen, timeline = find_form(form), _find(follower, name)
    before = timeline.form.name
    written = yield from await_in_steps(
        calls.submit(
            lambda metastore: write_properties(
                metastore, target, lambda properties: build_form_properties(timeline, chosen, properties)
            )
        )
    )
    failpoint("catalog.migrated")
    found = _find(follower, name)  # an event may have dropped the table
    with store.transaction() as txn:
        change = follower.change(txn)
        change.set_form(name.table, name.period, found.column, chosen.name)
    change.publish()
    return MigrationResult(name.table, found.column, name.period.lens_name, before, chosen.name, written)


def _find(follower: TimelineFollower, name: TimelineName) -> Timeline:
    is_followed = name.table in follower.timelines.tables()
    found = follower.timelines.timeline(name.table, name.period, name.column) if is_followed else None
    if found is None:
        raise NotFound(
            "the timeline does not exist", table=name.table, column=name.column, period=name.period.lens_name
        )
    return found
