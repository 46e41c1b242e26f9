"""The program that a crash test kills:
a quarantined table is released, resumes where it stopped, and the policy is followed.

``python -m tests.crash.programs.resume_program SETTINGS`` with a JSON object; ends with 0 when everything was
applied.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing

from handlers.replication.loading import catch_up, follower
from handlers.replication.loading.resume import ReadEvents
from tests.builders.replication.replay_kills import killed_replica
from tests.builders.replication.replica import Replica


def main(text: str) -> None:
    """Release what is quarantined, and follow the log to the event ``upto``."""
    settings = json.loads(text)
    replica = killed_replica(settings)
    with closing(replica.projection):
        release(replica)
        follow(replica, settings["upto"])


def read(replica: Replica) -> ReadEvents:
    return lambda after, upto: replica.events(after, upto=upto)


def release(replica: Replica) -> None:
    """Release the quarantined tables: each resumes."""
    replica.projection.open()
    for entry in replica.context.tables.quarantine.entries():
        done = replica.projection.loads.release(entry.table, read(replica))
        assert done.reason is None, done


def follow(replica: Replica, upto: int) -> None:
    """Let tables catch up in the shortest turns, and follow the others with one event in each batch, up to
    the event ``upto``."""
    catch_up.PIECE_EVENTS, follower.TURN_S = 1, 0.0  # type: ignore[misc]  # the shortest turns
    projection = replica.projection
    position, more = projection.open().event_id, True
    while more or position < upto:
        more = projection.loads.catch_up(read(replica))
        assert projection.loads.to_load() == (), "a table that resumes is never loaded because of a kill"
        if position < upto:
            position = projection.apply(replica.events(position, upto=position + 1)).event_id
    projection.settle()


if __name__ == "__main__":
    main(sys.argv[1])
