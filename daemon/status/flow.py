"""A node of the drawing of the flow: where events come from and where they go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowNode:
    """One box. The sections of the status offer those that the daemon itself does not know."""

    kind: str
    """In words, such as ``flat table``."""
    name: str
    state: str
    facts: tuple[str, ...] = ()
    """Short texts, such as ``3 s behind``."""
    href: str = ""
    source: str | None = None
    """The source whose events it gets; None for a stream that is not a source."""
