"""A node in the drawing of the flow of events."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode:
    """One box of the drawing. Sections of the status add the boxes of their capabilities."""

    kind: str
    """In words, such as ``flat table``."""
    name: str
    state: str
    facts: tuple[str, ...] = ()
    """Short texts, such as ``3 s behind``."""
    href: str = ""
    source: str | None = None
    """The source whose events it gets; None for a stream that is not a source."""
