"""What to write into a table's properties: one timeline in a new form, or all of them as they are now.

Changing the storage form of one timeline is LENS-489, which Lens never got: there it takes a flag on the whole table, a
restart, and reading every partition again. But the runs in memory say all that the new form needs, so a migration is a pure
function from old properties to the properties to write in one ``alter_table``. No other timeline of the table is touched.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from state.timelines.forms import Form, known
from state.timelines.properties import APPLIED_EVENT, PRESENT, STORAGE_CLASS, prefix, section


if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from state.timelines.timeline import Timeline


def migrated(timeline: Timeline, form: Form, properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that make ``timeline`` stand in ``form``, in the order to write them.

    First the new form's keys with stale chunks of its own emptied, then the keys of the other forms that stand in
    ``properties``, emptied (sizes 0, the rest empty text, because a metastore that merges parameters cannot forget a key),
    and ``storage.class`` last. A reader of any part of the sequence finds the same partitions or a contradiction, never an
    empty timeline.
    ``timeline`` itself does not change: set its ``form`` when the metastore has accepted.
    """
    start = prefix(timeline.period, timeline.column)
    old = section(properties, timeline.period, timeline.column)
    written = form.blanks(old) | form.write(timeline.period, timeline.runs)
    for other in known():
        if other.class_name != form.class_name:
            written |= other.blanks(old)
    return {start + key: value for key, value in written.items()} | {start + STORAGE_CLASS: form.class_name}


def published(timelines: Iterable[Timeline], properties: Mapping[str, str], event_id: int) -> dict[str, str]:
    """Return the properties that say all timelines of a table, as of an event, the flag last.

    The event id is there for compare-and-set, and to recognise the ALTER_TABLE event of this very write.
    """
    written: dict[str, str] = {}
    for timeline in timelines:
        written |= migrated(timeline, timeline.form, properties)
    return written | {APPLIED_EVENT: str(event_id), PRESENT: "true"}
