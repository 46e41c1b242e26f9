"""The program that a crash test kills: the bootstrap of a policy, and then following to a given event.

``python -m tests.crash.programs.bootstrap_program SETTINGS`` with a JSON object; ends with 0 when everything
is loaded and applied.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing

from handlers.replication.loading.bootstrap import begin_bootstrap
from tests.builders.replication.replay_kills import killed_replica


def main(text: str) -> None:
    """Begin or continue the bootstrap, then follow."""
    settings = json.loads(text)
    replica = killed_replica(settings)
    with closing(replica.projection):
        begin_bootstrap(
            source=replica.source, target=replica.target, policy=replica.policy, store=replica.store
        )
        replica.follow(upto=settings["upto"])


if __name__ == "__main__":
    main(sys.argv[1])
