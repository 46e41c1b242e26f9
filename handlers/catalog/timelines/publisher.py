"""Writing timelines back into table properties, so that Lens (or whoever reads its properties) sees what Tideline knows.

Changes of a table are collected for a while and written in one ``alter_table``, with the event id that they reflect. That the
table has to be written is remembered in the transaction of the change itself, so nothing is forgotten over a crash; the event
id is remembered before the write, so that the event which the write causes is recognised as our own.
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


_TRIED_AGAIN: Final = frozenset({"conflict", "not-there-yet"})


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
        """``database`` gives a database's name on a target; None where the source's own tables are written."""
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
        """Write the tables that changed ``delay_s`` ago; raises Transient."""
        now_s = time.monotonic()
        due = [name for name, since_s in self._follower.dirty.items() if now_s - since_s >= self._delay_s]
        for name in due:
            known = states.get(name)
            if states.is_waiting(name) or (known is not None and known.code is not None):
                continue
            outcome = "same" if known is None else self._publish(store, states, name, event_id)
            self._observer.published(outcome)
            if outcome in _TRIED_AGAIN:
                self._follower.dirty[name] = now_s
            else:
                self._follower.clean(store, name)

    def _publish(self, store: Store, states: TableStates, name: str, event_id: int) -> str:
        timelines = self._follower.timelines
        if name not in timelines.tables():
            return "same"

        def remember() -> None:
            known = states.get(name)
            if known is not None and self.writes_source:
                with store.transaction() as txn:
                    states.put(txn, name, replace(known, published=str(event_id)))
            failpoint("catalog.before-publish")

        try:
            written = write_properties(
                self.metastore,
                self.target_name(name),
                lambda properties: build_table_properties(timelines.timelines(name), properties, event_id),
                before_write=remember,
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
        """Return the name of the table that is written for ``name``."""
        if self._database is None:
            return name
        db, _, table = name.partition(".")
        return qualify(self._database(db), table)

    def close(self) -> None:
        """Release the connection, where it is not the catalog's."""
        if self._database is not None:
            self.metastore.close()


@dataclass(frozen=True, slots=True)
class MigrationResult:
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
) -> MigrationResult:
    """Write the timeline ``name`` in ``form`` into the properties of ``target``, then remember the form.

    Raises ConfigError for an unknown form, NotFound where there is no such timeline, InvalidRequest where the table is
    changed by others again and again. After a crash between the two steps, migrate again.
    """
    chosen = find_form(form)
    timeline = follower.timelines.timeline(name.table, name.period, name.column)
    if timeline is None:
        raise NotFound(
            "there is no such timeline", table=name.table, column=name.column, period=name.period.lens_name
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
