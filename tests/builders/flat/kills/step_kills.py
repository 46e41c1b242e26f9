"""What is killed at every step of a flat table:
a batch, a seal, a promotion, a narrowing and the reuse of a slot.

Each function brings new events before every kill, so the next run continues the interrupted step with more to
do. The table decides what is killed, and where its files and its source are. ``Killed.dies`` checks the table
after every kill, ``Killed.ends_well`` at the end.
"""

from __future__ import annotations

from typing import Final

from tests.builders.flat.kills.driver_kills import BATCH, NARROWING, PROMOTION, REUSE, SEAL, Killed, plain


GROWING: Final = 2
"""The batch whose integers need 32 bits. Hive does not compare longer ones with a text."""


def survive_kills_in_batches(table: Killed) -> None:
    """Kill at every step of a batch."""
    for hour, step in enumerate(BATCH):
        # Integers outgrow their column in the first batches, which therefore alter the table.
        table.land(range(hour, hour + 1), lambda n, hour=hour: n * 200 ** min(hour, GROWING))  # type: ignore[misc]
        table.dies(step)
    table.ends_well()


def survive_kills_in_seals(table: Killed) -> None:
    """Kill at every step of a seal."""
    table.land(range(2), plain)
    table.ends_well()
    for hour, step in enumerate(SEAL, start=2):
        table.land(range(hour, hour + 1), plain)
        table.dies(step)
    table.ends_well()


def survive_kills_in_a_promotion(table: Killed) -> None:
    """Kill at every step of the promotion of a column, whose values must stay correct."""
    table.land(range(3), plain)
    table.ends_well()
    table.land(range(3, 4), lambda n: "007" if n == 7 else f"x{n}" if n % 2 else n)
    table.ends_well()
    for hour, step in enumerate(PROMOTION, start=4):
        table.land(range(hour, hour + 1), plain)
        table.dies(step)
    table.ends_well()
    assert table.columns()["n"] == "string"


def survive_kills_in_a_narrowing(table: Killed) -> None:
    """Kill at every step of a narrowing, whose values must stay correct."""
    table.land(range(3), str)
    table.ends_well()
    table.narrows = "n"
    table.dies("flat.rewritten")
    table.narrows = ""
    for hour, step in enumerate(NARROWING, start=3):
        table.land(range(hour, hour + 1), plain)
        table.dies(step)
    table.ends_well()
    assert table.columns()["n"] == "tinyint"


def survive_kills_in_a_reuse(table: Killed) -> None:
    """Kill at every step of the reuse of a slot, whose former values no reader may see."""
    table.rules = {"retention_days": 1, "empty_days": 1}
    table.keys = ["epoch", "uuid", "n", "old"]
    table.land(range(-30, -28), plain, old="gone")
    table.ends_well()
    table.keys = ["epoch", "uuid", "n"]
    table.land(range(2), plain, old="unasked")
    assert table.run() == 0
    slot = list(table.columns()).index("old")  # retired, and kept while old hours are
    table.expires()
    table.keys = ["epoch", "uuid", "n", "fresh"]
    for hour, step in enumerate(REUSE, start=2):
        table.land(range(hour, hour + 1), plain, fresh="new")
        table.dies(step)
    table.ends_well()
    assert list(table.columns()).index("fresh") == slot
