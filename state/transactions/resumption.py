"""Decides whether replay of a table can continue at the event at which it stopped, or whether the table needs
another load.

A quarantined table keeps the state from before the failed event, but its transactions do not wait: one that
held a write id of the table commits on the target for the other tables, and its write id then shows no rows
of this one. Files added later would appear one by one. So replay continues only if every write id that was
open when it stopped is still open, and if the target's table has the same name and the same write ids as
then. Later transactions do not matter: the target never allocated their write ids in this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final


if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from state.transactions.write_id_mapping import WriteIdMapping


_NAMED_MAX: Final = 5
"""Transactions and write ids that a reason names."""

Held = frozenset[tuple[int, int]]
"""Open write ids of a table, each with its source transaction."""


@dataclass(frozen=True, slots=True)
class StoppedTable:
    """Facts about a table at the moment when replay stopped following it."""

    table: str
    """The table's name at that moment."""
    high_water_mark: int
    """The table's highest write id on the target."""
    held: Held


@dataclass(frozen=True, slots=True)
class TargetWriteIds:
    """The write ids of a table as the target reports them now; a table that is not transactional has none."""

    high_water_mark: int = 0
    open: frozenset[int] = frozenset()


def describe_stop(table: str, mapping: WriteIdMapping, name: str, loaded_write_id: int) -> StoppedTable:
    """Return the current facts about ``table``, which has the name ``name`` (``db.tbl``) in the mapping.

    ``loaded_write_id`` is the highest write id in the load of the table; 0 if its rows came from events
    alone.
    """
    valid = mapping.valid_write_ids(name)
    mark = 0 if valid is None else valid.high_water_mark
    return StoppedTable(table, max(mark, loaded_write_id), mapping.held_write_ids(name))


def find_obstacle(
    stopped: StoppedTable | None, *, table: str, held: Held, target: TargetWriteIds | None
) -> str | None:
    """Return the reason why replay of a table cannot continue at its stop; None if it can.

    ``stopped`` is None if no stop was recorded. ``table`` is the current name, ``held`` the current facts of
    the mapping, and ``target`` is None if the target lacks the table, or some of its rows.
    """
    if stopped is None:
        return "its write ids were not recorded when it was quarantined"
    if stopped.table != table:
        return f"it was renamed from '{stopped.table}' since it was quarantined"
    ended = {txn_id for _, txn_id in stopped.held - held}
    if ended:
        return f"these transactions that were writing into it ended or are unknown: {_some(ended)}"
    return _find_change(stopped, target)


def _find_change(stopped: StoppedTable, target: TargetWriteIds | None) -> str | None:
    """Return the difference from the state that replay left on the target; None if nothing changed."""
    if target is None:
        return "the target lacks the table, or some of its rows"
    if target.high_water_mark != stopped.high_water_mark:
        return (
            f"the target has allocated write ids up to {target.high_water_mark}, but replay stopped at "
            f"{stopped.high_water_mark}"
        )
    differing = target.open ^ {write_id for write_id, _ in stopped.held}
    if differing:
        return f"its open write ids on the target were changed: {_some(differing)}"
    return None


def _some(ids: AbstractSet[int]) -> str:
    text = ", ".join(str(each) for each in sorted(ids)[:_NAMED_MAX])
    return text if len(ids) <= _NAMED_MAX else f"{text} and {len(ids) - _NAMED_MAX} more"
