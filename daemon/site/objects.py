"""The object of a state or a loop in words, with the page that shows it."""

from __future__ import annotations

from urllib.parse import quote


def describe_object(name: str) -> tuple[str, str]:
    """Return the object of a state in words, and the path of its page: a table of a policy, or a policy."""
    projection, _, table = name.partition(" ")
    kind, _, policy = projection.partition(":")
    if kind != "replication" or not policy:
        return name, ""
    path = f"/policies/{quote(policy, safe='')}"
    if not table:
        return f"Policy {policy}", path
    short = table.rpartition(".")[2]
    return f"Table {table} of policy {policy}", f"{path}/tables/{quote(short, safe='')}"
