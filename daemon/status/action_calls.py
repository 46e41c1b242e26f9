"""The API's actions that end states which need an operator, for the buttons of a page.

The routes are those of ``daemon.replica.http.routes`` and ``daemon.relay.routes``; a test compares the paths.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ActionCall:
    """A request that ends a state once the cause is gone. It needs the role *operate*."""

    path: str
    label: str
    """The text of a button."""
    body: Mapping[str, Any] = field(default_factory=dict)
    method: str = "POST"


def call_policy(policy: str, action: str, label: str, **body: Any) -> ActionCall:
    """Return an action on a policy."""
    return ActionCall(f"/api/v1/policies/{quote(policy, safe='')}/{action}", label, body)


def call_source(source: str, action: str, label: str) -> ActionCall:
    """Return an action on the relay of a source."""
    return ActionCall(f"/api/v1/sources/{quote(source, safe='')}/{action}", label)


def call_projection(projection: str, action: str, label: str, **body: Any) -> ActionCall | None:
    """Return an action on a policy, by the name of its projection; None for other projections."""
    kind, _, name = projection.partition(":")
    return call_policy(name, action, label, **body) if kind == "replication" else None
