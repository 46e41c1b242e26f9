"""The delay of a promotion to STRING: since when the evidence for it has been sufficient without interruption.

A promotion rewrites all retained hours, and types narrow only on request. It is therefore announced first: ``tideline split plan`` shows it with
its evidence, and ``tideline keys pin`` stops it. If the evidence becomes insufficient, the announcement is discarded and a later one
starts again. The writer keeps the announcements in a parameter of the table, so a restart does not change them.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final


if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


ANNOUNCED_MAX: Final = 150
"""Announcements at the same time, so that their text fits into a table parameter. Further promotions are announced later."""


def announce(announced: Mapping[int, int], proposed: Collection[int], now_s: int) -> dict[int, int]:
    """Return since when (seconds since 1970) each proposed slot has been announced, given the earlier announcements."""
    known = {slot: min(announced[slot], now_s) for slot in sorted(proposed) if slot in announced}
    new = [slot for slot in sorted(proposed) if slot not in announced]
    return (known | dict.fromkeys(new[: max(0, ANNOUNCED_MAX - len(known))], now_s)) if new else known


def find_due(announced: Mapping[int, int], delay_hours: int, now_s: int) -> frozenset[int]:
    """Return the slots whose promotion may begin."""
    return frozenset(slot for slot, since_s in announced.items() if now_s - since_s >= delay_hours * 3_600)


def encode_announced(announced: Mapping[int, int]) -> str | None:
    """Return the announcements as text; None if there are none."""
    return json.dumps({str(slot): announced[slot] for slot in sorted(announced)}) if announced else None


def parse_announced(text: str | None) -> dict[int, int]:
    """Return what ``encode_announced`` wrote. Any other text counts as no announcement, so that only the delay starts again."""
    try:
        form: Any = json.loads(text or "{}")
        announced = {int(slot): since_s for slot, since_s in form.items()}
    except (ValueError, AttributeError, RecursionError):
        return {}
    return announced if all(type(each) is int for each in announced.values()) else {}
