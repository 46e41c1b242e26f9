"""Text that the answers of all branches of a catalog have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from collections.abc import Mapping


def as_of(answer: Mapping[str, Any]) -> str:
    """Return which event an answer reflects, and how far the source is."""
    newest = answer.get("current_event_id")
    return f"as of event {answer['event_id']}, source at {'?' if newest is None else newest}"
