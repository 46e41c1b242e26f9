"""When slots last brought a value: whether one is silent, and when its hours are worth writing down again.

Hours are those that are known from before, in the layout, joined with those that were seen: the book of observations may be lost or
cut, and the layout is only altered now and then. Hours are seconds since 1970.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from state.columns.slots import HOUR_S, SlotState


if TYPE_CHECKING:
    from collections.abc import Mapping

    from state.columns.observations import KeyWindow
    from state.columns.paths import KeyPath
    from state.columns.rules import FlatRules
    from state.columns.slots import Slot


@dataclass(frozen=True, slots=True)
class Freshness:
    """Slots beside what was seen of their keys, in the hour that is being written."""

    seen: Mapping[KeyPath, KeyWindow]
    now_hour: int
    rules: FlatRules

    def is_silent(self, slot: Slot) -> bool:
        """Whether the slot's key has brought nothing for longer than slots wait; never so for the whitelist."""
        return self._is_old(self._last_hour(slot)) and slot.key not in self.rules.whitelist

    def is_long_empty(self, slot: Slot) -> bool:
        """Whether the slot is empty, and noted to have had its last value longer ago than slots wait."""
        return slot.state is SlotState.EMPTY and self._is_old(slot.last_seen_hour)

    def refreshed(self, slot: Slot) -> Slot:
        """Return the slot with the hours that were seen, where it is live."""
        if slot.state is not SlotState.LIVE:
            return slot
        last_hour = self._last_hour(slot)
        first_hour = last_hour if slot.first_seen_hour is None else slot.first_seen_hour
        return replace(slot, first_seen_hour=first_hour, last_seen_hour=last_hour)

    def is_stale(self, slot: Slot) -> bool:
        """Whether the slot's hours alone are worth an alteration of the table."""
        last_hour = self.refreshed(slot).last_seen_hour
        if slot.last_seen_hour is None or last_hour is None:
            return last_hour is not slot.last_seen_hour
        return last_hour - slot.last_seen_hour >= self.rules.refresh_hours * HOUR_S

    def _last_hour(self, slot: Slot) -> int | None:
        """The last hour that brought a value; one from the future counts as now, or its slot would never be free again."""
        assert slot.key is not None, slot
        window = self.seen.get(slot.key)
        hours = [slot.last_seen_hour, None if window is None else min(window.last_hour, self.now_hour)]
        return max((hour for hour in hours if hour is not None), default=None)

    def _is_old(self, hour: int | None) -> bool:
        return hour is None or hour < self.now_hour - self.rules.empty_days * 24 * HOUR_S
