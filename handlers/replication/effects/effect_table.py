"""The effect of each kind of event, except for those of transactions. To add a kind, add a line here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from handlers.events import (
    ConstraintDropped,
    ConstraintsAdded,
    DatabaseAltered,
    DatabaseCreated,
    DatabaseDropped,
    Event,
    FunctionCreated,
    FunctionDropped,
    Inserted,
    PartitionsAdded,
    PartitionsAltered,
    PartitionsDropped,
    StatisticsDeleted,
    StatisticsUpdated,
    TableAltered,
    TableCreated,
    TableDropped,
)
from handlers.failpoints import failpoint
from handlers.replication.context import Context
from handlers.replication.effects import constraints, databases, functions, partitions, statistics, tables
from handlers.replication.effects.files import plain_files


Effect = Callable[[Any, "Context"], None]
DATABASE_EFFECTS: Final[dict[type[Event], Effect]] = {
    DatabaseCreated: databases.create,
    DatabaseAltered: databases.alter,
    DatabaseDropped: databases.drop,
    FunctionCreated: functions.create,
    FunctionDropped: functions.drop,
}
TABLE_EFFECTS: Final[dict[type[Event], Effect]] = {
    TableCreated: tables.create,
    TableAltered: tables.alter,
    TableDropped: tables.drop,
    PartitionsAdded: partitions.add,
    PartitionsAltered: partitions.alter,
    PartitionsDropped: partitions.drop,
    Inserted: plain_files.insert,
    StatisticsUpdated: statistics.update,
    StatisticsDeleted: statistics.delete,
    ConstraintsAdded: constraints.add,
    ConstraintDropped: constraints.drop,
}
_EFFECTS: Final = TABLE_EFFECTS | DATABASE_EFFECTS


def apply_effect(event: Event, context: Context) -> None:
    """Apply the effect of an event of one of these kinds."""
    failpoint("replay.before-effect")
    _EFFECTS[type(event)](event, context)
    failpoint("replay.after-effect")
