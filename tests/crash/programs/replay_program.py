"""The program that a crash test kills: one run of a replica, from its stored position to a given event.

``python -m tests.crash.programs.replay_program SETTINGS`` with a JSON object; ends with 0 when everything was applied.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from state.positions import POSITION_KEY
from state.store.sqlite import SqliteStore
from tests.builders.replication.replica import build_replica, start_after


def main(text: str) -> None:
    """Follow the log to the event ``upto`` in one batch, so that a kill leaves as much undone as possible."""
    settings = json.loads(text)
    store = SqliteStore(Path(settings["state"]), schema_version=1)
    if store.get(POSITION_KEY) is None:
        start_after(store, settings["before"])
    replica = build_replica(
        settings["source"],
        settings["target"],
        db=settings["db"],
        target_db=settings["target_db"],
        roots=settings["roots"],
        store=store,
        start=False,
    )
    with closing(replica.projection):
        replica.follow(upto=settings["upto"])


if __name__ == "__main__":
    main(sys.argv[1])
