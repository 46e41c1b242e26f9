"""Whether a table of the source is still the one that an event is about.

What replay or the relay reads at the source, it reads later than the event. The table may have been renamed by then, and another one may have
its name, its directory and its write ids: tables are often built beside the one in use, and exchanged with it by two renames.
"""

from __future__ import annotations

from handlers.structs import tjson
from handlers.structs.objects import Table
from state.errors import BadInput


def is_same_table(event: Table, present: Table) -> bool:
    """Whether both are states of one table: neither its id nor the time of its creation ever changes."""
    if event.id is not None and present.id is not None and event.id != present.id:
        return False
    return event.createTime == present.createTime


def is_written_table(owner_text: str | None, present: Table) -> bool:
    """Do the same for the encoded table of a write event; True if it has none, or one that cannot be read."""
    if owner_text is None:
        return True
    try:
        return is_same_table(tjson.decode(Table, owner_text), present)
    except BadInput:
        return True
