"""The program that the crash test kills: effects and position in one transaction, again and again.

Each step n writes a few entries that can be told from n alone, deletes those of an older step, and moves the
position. What any crash may leave is therefore exactly one of the states ``expected(n)``.

Usage: ``python apply_and_move.py FILE LAST [checkpoints]`` goes on from where the file stands to step LAST;
``durable`` is on. It prints each step that is committed. With ``checkpoints``, the store has snapshots, and a
thread copies the log after every commit.
"""

from __future__ import annotations

import sys

from state.event_log.positions import POSITION_KEY, Position
from state.store import sqlite_checkpoints
from state.store.sqlite import SqliteStore


KEYS_PER_STEP = 3
STEPS_KEPT = 2


def entries(step: int) -> dict[bytes, bytes]:
    """What step ``step`` writes; one value is larger than a page, so that overflow pages are part of the
    game."""
    return {
        b"effect/%08d/%d" % (step, number): b"%d " % step * (2000 if number == 0 else 10)
        for number in range(KEYS_PER_STEP)
    }


def expected(step: int) -> dict[bytes, bytes]:
    """The whole content after step ``step``; step 0 is the empty store."""
    kept: dict[bytes, bytes] = {} if step == 0 else {POSITION_KEY: Position(step).to_bytes()}
    for earlier in range(max(1, step - STEPS_KEPT + 1), step + 1):
        kept |= entries(earlier)
    return kept


def apply(store: SqliteStore, step: int) -> None:
    """Make one step; it takes effect as a whole or not at all."""
    with store.transaction() as transaction:
        for key, value in entries(step).items():
            transaction.put(key, value)
        old = step - STEPS_KEPT
        transaction.delete_range(b"effect/", b"effect/%08d" % (old + 1))
        transaction.put(POSITION_KEY, Position(step).to_bytes())


def main(path: str, last: int, *, snapshots: bool = False) -> None:
    """Go on from the stored position to step ``last``."""
    store = SqliteStore(path, schema_version=1, snapshots=snapshots)
    stored = store.get(POSITION_KEY)
    first = 1 if stored is None else Position.from_bytes(stored).event_id + 1
    for step in range(first, last + 1):
        apply(store, step)
        print(step, flush=True)  # noqa: T201 - what the test may rely on
    store.close()


if __name__ == "__main__":
    sqlite_checkpoints.DUE_BYTES, sqlite_checkpoints.PAUSE_S = 1, 0.0  # type: ignore[misc]
    sqlite_checkpoints.RESTART_BYTES = 0  # type: ignore[misc]
    main(sys.argv[1], int(sys.argv[2]), snapshots="checkpoints" in sys.argv[3:])
