"""Keeps a policy's quarantine, waiting loads, left tables and pause in the parameters of its target database,
in case the state file is lost or another daemon follows the policy from now on.

The call that sets ``repl.last.id`` writes them. So the position on the target never passes an event that
quarantined a table unless the entry is there too, and a policy that starts again from this position knows
which tables are incomplete. They belong to the database and not to its tables. So the write does not depend
on a table that fails, renames and drops need no change, and one read returns all entries.

An entry is ``TABLE:EVENT:CODE`` or ``TABLE:EVENT:CODE:STOP`` for a quarantined table, ``TABLE:REASON`` for
one that waits for its load, and ``TABLE:left`` for one that left the policy. ``STOP`` is
``NAME;WRITE ID;LOADED WRITE ID;WRITE ID-TRANSACTION;…``: the facts that a release needs to resume the table
at its stop. It is left out if more than ``HELD_MAX`` write ids were open; the table is then loaded. A
database parameter holds at most 4,000 characters, so the list takes several parameters. Beyond
``PIECES_MAX``, it is only a mark: then all tables count as incomplete. The pause has a parameter for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, get_args
from urllib.parse import quote, unquote

from handlers.replication.tables.quarantine import QuarantinedTable
from handlers.replication.tables.table_entries import LeftTable
from handlers.replication.tables.table_loads import Reason, TableLoad


KEPT: Final = "tideline.quarantine"
"""Name of the first parameter; further ones have the suffix ``.1``, ``.2`` and so on."""
PAUSED: Final = "tideline.paused"
"""Name of the parameter with the Unix time since which the policy is paused; missing if it is not."""
NOTHING: Final = "-"
TOO_MANY: Final = "*"
LEFT: Final = "left"
PIECE_CHARACTERS: Final = 3_900
PIECES_MAX: Final = 40
HELD_MAX: Final = 20
REASON: Final = "the reason was lost with the state file; the target has only the code"


@dataclass(frozen=True, slots=True)
class KeptEntries:
    """The entries read back."""

    quarantined: tuple[QuarantinedTable, ...] = ()
    waiting: tuple[tuple[str, Reason], ...] = ()
    left: tuple[str, ...] = ()
    complete: bool = True
    """False if the target has no list, or there were too many entries."""
    paused_since_s: int | None = None


def format_entries(
    quarantined: Iterable[QuarantinedTable],
    waiting: Iterable[TableLoad],
    left: Iterable[LeftTable] = (),
    paused_since_s: int | None = None,
) -> dict[str, str]:
    """Return the parameters that contain the entries."""
    entries = [_format_quarantined(each) for each in quarantined]
    entries += [f"{quote(each.table)}:{each.reason}" for each in waiting]
    entries += [f"{quote(each.table)}:{LEFT}" for each in left]
    pieces = _cut(entries)
    if len(pieces) > PIECES_MAX:
        pieces = [TOO_MANY]
    kept = {KEPT if not number else f"{KEPT}.{number}": piece for number, piece in enumerate(pieces)}
    return kept if paused_since_s is None else {**kept, PAUSED: str(paused_since_s)}


def _format_quarantined(entry: QuarantinedTable) -> str:
    text = f"{quote(entry.table)}:{entry.event_id}:{quote(entry.code)}"
    if entry.name is None or len(entry.held) > HELD_MAX:
        return text
    held = [f"{write_id}-{txn_id}" for write_id, txn_id in entry.held]
    return f"{text}:{';'.join([quote(entry.name), str(entry.write_id), str(entry.loaded_write_id), *held])}"


def _parse_quarantined(table: str, event_id: str, code: str, stop: str) -> QuarantinedTable:
    """Return an entry with the facts of the stop; raise ValueError."""
    name, write_id, loaded_write_id, *held = stop.split(";")
    pairs = [pair.split("-") for pair in held]
    return QuarantinedTable(
        unquote(table),
        int(event_id),
        unquote(code),
        REASON,
        name=unquote(name),
        write_id=int(write_id),
        held=tuple((int(held_id), int(txn_id)) for held_id, txn_id in pairs),
        loaded_write_id=int(loaded_write_id),
    )


def _cut(entries: Iterable[str]) -> list[str]:
    pieces: list[str] = []
    for entry in entries:
        if pieces and len(pieces[-1]) + 1 + len(entry) <= PIECE_CHARACTERS:
            pieces[-1] += f",{entry}"
        else:
            pieces.append(entry)
    return pieces or [NOTHING]


def parse_entries(parameters: Mapping[str, str]) -> KeptEntries:
    """Read the entries back; those that cannot be read make the list incomplete."""
    pieces = select_kept(parameters)
    paused = pieces.pop(PAUSED, "")
    paused_since_s = int(paused) if paused.isdecimal() else None
    if KEPT not in pieces or TOO_MANY in pieces.values():
        return KeptEntries(complete=False, paused_since_s=paused_since_s)
    quarantined: list[QuarantinedTable] = []
    waiting: list[tuple[str, Reason]] = []
    left: list[str] = []
    complete = True
    for entry in (entry for piece in pieces.values() if piece != NOTHING for entry in piece.split(",")):
        match entry.split(":"):
            case [table, event_id, code] if event_id.isdecimal():
                quarantined.append(QuarantinedTable(unquote(table), int(event_id), unquote(code), REASON))
            case [table, event_id, code, stop] if event_id.isdecimal():
                with suppress(ValueError):
                    quarantined.append(_parse_quarantined(table, event_id, code, stop))
                    continue
                complete = False
            case [table, "left"]:
                left.append(unquote(table))
            case [table, reason] if reason in get_args(Reason):
                waiting.append((unquote(table), reason))  # type: ignore[arg-type]
            case _:
                complete = False
    return KeptEntries(tuple(quarantined), tuple(waiting), tuple(left), complete, paused_since_s)


def select_kept(parameters: Mapping[str, str]) -> dict[str, str]:
    """Return those parameters that contain entries or the pause."""
    return {
        key: value for key, value in parameters.items() if key in {KEPT, PAUSED} or key.startswith(f"{KEPT}.")
    }
