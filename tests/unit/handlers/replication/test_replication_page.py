"""docs/REPLICATION.md lists every kind of event with its real effect, and names only tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from handlers import events
from handlers.decoding import notifications
from handlers.decoding.header import LOST_KIND
from handlers.events import (
    CompactionCommitted,
    FilesWritten,
    TxnAborted,
    TxnCommitted,
    TxnsOpened,
    WriteIdsAllocated,
)
from handlers.replication.effects.effect_table import DATABASE_EFFECTS, TABLE_EFFECTS


ROOT: Final = Path(__file__).parents[4]
PAGE: Final = (ROOT / "docs/REPLICATION.md").read_text()
REPLAYED: Final = {WriteIdsAllocated, FilesWritten, TxnCommitted, TxnAborted}


def section(title: str) -> str:
    return PAGE.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """Return the cells of the rows of a section's table, without its header."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


LISTED: Final = {cells[0].strip("`"): (cells[1], cells[2].strip("`")) for cells in rows("Events")}


def expected(kind: str) -> tuple[str, str]:
    """Return the outcome of a kind of event, and the code that applies it."""
    if kind not in notifications._BUILDERS:
        return "ignored", "-"
    name, *_ = notifications._BUILDERS[kind].__annotations__["return"].split(" | ")
    cls = getattr(events, name)
    effect = (TABLE_EFFECTS | DATABASE_EFFECTS).get(cls)
    if effect is not None:
        module = effect.__module__.removeprefix("handlers.replication.").replace(".", "/")
        return "applied", f"{module}.{effect.__name__}"
    if cls in REPLAYED:
        return "applied", "transactions/transaction_replay"
    if cls is CompactionCommitted:
        return "applied", "dispatch"
    return ("deferred", "transactions/transaction_replay") if cls is TxnsOpened else ("ignored", "-")


def test_every_kind_of_event_is_listed_and_no_other() -> None:
    known = (set(notifications._BUILDERS) | notifications._NOTHING_TO_DO) - {LOST_KIND}
    assert set(LISTED) == known


@pytest.mark.parametrize("kind", sorted(LISTED))
def test_the_listed_effect_is_the_one_of_the_code(kind: str) -> None:
    assert LISTED[kind] == expected(kind)


@cache
def find_tests() -> frozenset[str]:
    """Return the names of all tests."""
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= set(re.findall(r"(?m)^\s*(?:async )?def (test_\w+)", path.read_text()))
    return frozenset(found)


def test_every_test_that_the_page_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named
    assert named <= find_tests()


def test_every_scenario_has_a_test_or_a_reason() -> None:
    for cells in rows("Scenarios of Hive's own tests"):
        scenario, answer = cells
        assert "`test_" in answer or answer.startswith(("Not ", "Partly")), scenario
