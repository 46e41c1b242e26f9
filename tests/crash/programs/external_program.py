"""The program that a crash test kills: copies one tree of external files, with records in a state file.

``python -m tests.crash.programs.external_program SETTINGS`` with a JSON object; prints the counts of the run
as JSON.
"""

from __future__ import annotations

import json
import sys
import threading
from contextlib import closing
from pathlib import Path

from daemon.state_directory.directory import open_state
from handlers.files.copying.copies import Copier
from handlers.files.copying.pool import CopyPool
from handlers.files.paths import AllowedRoots, parse_location
from handlers.files.systems.schemes import open_file_systems
from handlers.replication.external.directories import DirectoryCopier, Tree
from handlers.replication.external.records import CopyRecords
from handlers.replication.external.trees import TreeCopier


def main(text: str) -> None:
    """Make the target equal to the source."""
    given = json.loads(text)
    files = open_file_systems()
    records = CopyRecords(open_state(Path(given["state"]), "external", "test"))
    pool = CopyPool(Copier(files, AllowedRoots.of([given["source"]])), workers=2)
    with closing(records), closing(pool):
        directories = DirectoryCopier(
            files, pool, records, base=given["base"], delete=True, require_held=lambda: None
        )
        copier = TreeCopier(directories, workers=2, stopping=threading.Event())
        copier.copy([Tree(parse_location(given["source"]), parse_location(f"{given['base']}/t"))])
    counts = copier.counts
    sys.stdout.write(
        json.dumps({"copied": counts.copied, "files": counts.files, "problems": len(counts.problems)}) + "\n"
    )


if __name__ == "__main__":
    main(sys.argv[1])
