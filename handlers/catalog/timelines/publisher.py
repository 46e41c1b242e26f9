"""Publishes timelines into table properties, for Lens and other readers of its properties; and migrates their storage form.

Changes of a table are collected for a configured delay and written in one ``alter_table``, with the event id that they reflect.
Protocol:

1. The transaction of a change records the table as unpublished, so a crash loses nothing.
2. Before the write, the event id is stored, so that the event caused by the write is recognised.
3. The properties are written (``property_writer``).
4. The table is no longer unpublished.

A migration changes the storage form of one timeline (LENS-489): one ``alter_table`` with the runs in memory, which does not touch
any other timeline.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from handlers.catalog.following.table_info import qualify
from handlers.catalog.timelines.property_writer import write_properties
from handlers.failpoints import failpoint
from state.errors import InvalidRequest, NotFound, Refused
from state.timelines.storage_forms import find_form
from state.timelines.timeline import build_form_properties, build_table_properties


if TYPE_CHECKING:
    from collections.abc import Callable

    from handlers.catalog.following.ports import Observer
    from handlers.catalog.following.table_states import TableStates
    from handlers.catalog.timelines.timeline_follower import TimelineFollower
    from handlers.metastore.client import Metastore
    from state.store import Store
    from state.timelines.periods import UpdatePeriod


_RETRIED: Final = frozenset({"conflict", "not-there-yet"})


class Publisher:
    """Publishes the timelines of one source; used by the thread of its catalog."""

    def __init__(
        self,
        *,
        metastore: Metastore,
        follower: TimelineFollower,
        delay_s: float,
        observer: Observer,
        database: Callable[[str], str] | None = None,
    ) -> None:
        """``database`` returns a database's name on a target; None where the source's own tables are written."""
        self.metastore = metastore
        self._follower = follower
        self._delay_s = delay_s
        self._observer = observer
        self._database = database

    @property
    def writes_source(self) -> bool:
        """Whether the source's own tables are written."""
        return self._database is None

    def publish_due(self, store: Store, states: TableStates, event_id: int) -> None:
        """Publish the tables whose first unpublished change is ``delay_s`` old; raise Transient."""
        now_s = time.monotonic()
        due = [
            name for name, since_s in self._follower.unpublished.items() if now_s - since_s >= self._delay_s
        ]
        for name in due:
            known = states.get(name)
            if states.is_waiting(name) or (known is not None and known.code is not None):
                continue
            outcome = "same" if known is None else self._publish(store, states, name, event_id)
            self._observer.published(outcome)
            if outcome in _RETRIED:
                self._follower.unpublished[name] = now_s
            else:
                self._follower.mark_published(store, name)  # step 4

    def _publish(self, store: Store, states: TableStates, name: str, event_id: int) -> str:
        timelines = self._follower.timelines
        if name not in timelines.tables():
            return "same"

        def store_event_id() -> None:  # step 2
            known = states.get(name)
            if known is not None and self.writes_source:
                with store.transaction() as txn:
                    states.put(txn, name, replace(known, published=str(event_id)))
            failpoint("catalog.before-publish")

        try:
            written = write_properties(  # step 3
                self.metastore,
                self.target_name(name),
                lambda properties: build_table_properties(timelines.timelines(name), properties, event_id),
                before_write=store_event_id,
            )
        except NotFound:
            return "missing" if self.writes_source else "not-there-yet"
        except InvalidRequest:
            return "conflict"
        except Refused:
            return "failed"
        failpoint("catalog.after-publish")
        return "written" if written else "same"

    def target_name(self, name: str) -> str:
        """Return the name of the table whose properties are written for ``name``."""
        if self._database is None:
            return name
        db, _, table = name.partition(".")
        return qualify(self._database(db), table)

    def close(self) -> None:
        """Close the connection where it is not the catalog's."""
        if self._database is not None:
            self.metastore.close()


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
    store: Store, follower: TimelineFollower, metastore: Metastore, target: str, name: TimelineName, form: str
) -> MigrationResult:
    """Write the timeline ``name`` in ``form`` into the properties of ``target``, then store the form.

    Raises ConfigError for an unknown form, NotFound where the timeline does not exist, InvalidRequest where other writers keep
    changing the table. After a crash between the two steps, migrate again.
    """
    chosen = find_form(form)
    timeline = follower.timelines.timeline(name.table, name.period, name.column)
    if timeline is None:
        raise NotFound(
            "the timeline does not exist", table=name.table, column=name.column, period=name.period.lens_name
        )
    written = write_properties(
        metastore, target, lambda properties: build_form_properties(timeline, chosen, properties)
    )
    failpoint("catalog.migrated")
    with store.transaction() as txn:
        change = follower.timelines.change(txn)
        change.set_form(name.table, name.period, timeline.column, chosen.name)
    change.publish()
    return MigrationResult(
        name.table, timeline.column, name.period.lens_name, timeline.form.name, chosen.name, written
    )
