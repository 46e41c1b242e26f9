"""Processes by their parents and groups, as Linux reports them."""

from __future__ import annotations

from pathlib import Path


def children(parent: int | None) -> list[int]:
    """Return the living children of a process."""
    return [pid for pid, parent_pid, _ in _living() if parent_pid == parent]


def group(leader: int) -> list[int]:
    """Return the living processes of a group."""
    return [pid for pid, _, group_id in _living() if group_id == leader]


def command_line(pid: int) -> str:
    """Return the command of a process with its arguments; nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def maps_file(pid: int, path: str) -> bool:
    """Whether a process has mapped a file into its memory."""
    return any(line.endswith(f" {path}") for line in Path(f"/proc/{pid}/maps").read_text().splitlines())


def all_commands() -> list[tuple[int, str]]:
    """Return all living processes with their commands."""
    return [(pid, command_line(pid)) for pid, _, _ in _living()]


def _living() -> list[tuple[int, int, int]]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent, group_id = entry.read_text().rpartition(")")[2].split()[:3]
        except OSError:  # it has just ended
            continue
        if state != "Z":
            found.append((int(entry.parent.name), int(parent), int(group_id)))
    return found
