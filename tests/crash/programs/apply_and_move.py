"""The program that the crash test kills: effects and position in one transaction, again and again.

Each step n writes a few entries that can be told from n alone, deletes those of an older step, and moves the position. What
any crash may leave is therefore exactly one of the states ``expected(n)``.

Usage: ``python apply_and_move.py FILE LAST`` goes on from where the file stands to step LAST; ``durable`` is on.
"""

from __future__ import annotations

import sys

from state.positions import POSITION_KEY, Position
from state.store.sqlite import SqliteStore


KEYS_PER_STEP = 3
STEPS_KEPT = 2


def entries(step: int) -> dict[bytes, bytes]:
    """What step ``step`` writes; one value is larger than a page, so that overflow pages are part of the game."""
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


def main(path: str, last: int) -> None:
    """Go on from the stored position to step ``last``."""
    store = SqliteStore(path, schema_version=1)
    stored = store.get(POSITION_KEY)
    first = 1 if stored is None else Position.from_bytes(stored).event_id + 1
    for step in range(first, last + 1):
        apply(store, step)
    store.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
