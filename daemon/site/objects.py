"""Describes the object of a state or a loop in words, with the link to its page."""

from __future__ import annotations

from collections.abc import Container, Iterable
from typing import Final
from urllib.parse import quote

from daemon.status.model import ProjectionView


_KINDS: Final = {
    "relay": "Relay of source",
    "watch": "Watch of source",
    "retention": "Retention of source",
    "catalog": "Catalog of source",
    "verification": "Verification of policy",
    "compactions": "Compactions of target",
    "flat": "Flat table",
    "serve": "Endpoint",
}
"""Loops by the first part of their names."""


def describe_object(name: str) -> tuple[str, str]:
    """Return the object of a state in words, and the path of the page of its policy or table."""
    loop, _, table = name.partition(" ")
    kind, _, owner = loop.partition(":")
    if kind != "replication" or not owner:
        words = f"{_KINDS[kind]} {owner}" if owner and kind in _KINDS else loop
        return (f"Table {table} in {words[0].lower()}{words[1:]}" if table else words), ""
    path = f"/policies/{quote(owner, safe='')}"
    if not table:
        return f"Policy {owner}", path
    short = table.rpartition(".")[2]
    return f"Table {table} of policy {owner}", f"{path}/tables/{quote(short, safe='')}"


def find_readers(relays: Container[str], views: Iterable[ProjectionView]) -> list[str]:
    """Return the policies that read the sources of these relays, and therefore wait with them."""
    return [view.name for view in views if view.relay in relays and view.name.startswith("replication:")]
