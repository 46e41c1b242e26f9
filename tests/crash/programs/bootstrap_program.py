"""The program that a crash test kills: the bootstrap of a policy, and then following to a given event.

``python -m tests.crash.programs.bootstrap_program SETTINGS`` with a JSON object; ends with 0 when everything is loaded and applied.
"""

from __future__ import annotations

import json
import sys
from contextlib import closing
from pathlib import Path

from handlers.replication.loading.bootstrap import begin_bootstrap
from state.store.sqlite import SqliteStore
from tests.builders.replication.replica import build_replica


def main(text: str) -> None:
    """Begin or continue the bootstrap, then follow."""
    settings = json.loads(text)
    replica = build_replica(
        settings["source"],
        settings["target"],
        db=settings["db"],
        target_db=settings["target_db"],
        roots=settings["roots"],
        store=SqliteStore(Path(settings["state"]), schema_version=1),
        start=False,
    )
    with closing(replica.projection):
        begin_bootstrap(
            source=replica.source, target=replica.target, policy=replica.policy, store=replica.store
        )
        replica.follow(upto=settings["upto"])


if __name__ == "__main__":
    main(sys.argv[1])
