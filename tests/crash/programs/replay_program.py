"""The program that a crash test kills: one run of a replica, from its stored position to a given event.

``python -m tests.crash.programs.replay_program SETTINGS`` with a JSON object; ends with 0 when everything was
applied.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing

from state.event_log.positions import POSITION_KEY
from tests.builders.replication.replay_kills import killed_replica
from tests.builders.replication.replica import start_after


def main(text: str) -> None:
    """Follow the log to the event ``upto`` in one batch, so that a kill leaves as much undone as possible."""
    settings = json.loads(text)
    replica = killed_replica(settings)
    if replica.store.get(POSITION_KEY) is None:
        start_after(replica.store, settings["before"])
    with closing(replica.projection):
        replica.follow(upto=settings["upto"])


if __name__ == "__main__":
    main(sys.argv[1])
