"""Hive's own replication of one database: cycles of REPL DUMP on the source's SQL engine and REPL LOAD on the
target's.
"""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from typing import Final, Self

from dev.stack.endpoints import Endpoints
from dev.stack.hive.sql_session import Session


OPTIONS: Final = {
    "hive.repl.run.data.copy.tasks.on.target": "true",
    "hive.repl.add.raw.reserved.namespace": "false",
    "hive.repl.include.external.tables": "false",
    "hive.exec.copyfile.maxsize": str(1 << 40),
    "hive.exec.copyfile.maxnumfiles": "100000",
}
"""The target's engine copies files in its own process, which is the fastest for small files;
``/.reserved/raw`` exists only on HDFS."""


@dataclass(frozen=True, slots=True)
class Cycle:
    """The seconds of one cycle in the engines."""

    dump_s: float
    load_s: float

    @property
    def seconds(self) -> float:
        """The sum of both, because a cycle cannot begin to load before it has dumped everything."""
        return self.dump_s + self.load_s


class HiveCycles:
    """Replicates ``db`` as ``db_hive``."""

    def __init__(self, endpoints: Endpoints, db: str) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="tideline-bench-repl-")
        options = {**OPTIONS, "hive.repl.rootdir": f"file:{self._directory.name}"}
        settings = ",".join(f"'{name}'='{value}'" for name, value in options.items())
        self._dump = f"repl dump {db} with ({settings})"
        self._load = f"repl load {db} into {db}_hive with ({settings})"
        self._source = Session.connect(endpoints.source.sql)
        self._target = Session.connect(endpoints.target.sql)
        for session in (self._source, self._target):
            session.run("set hive.txn.readonly.enabled=true")

    def run(self) -> Cycle:
        """Run one cycle, of which the first is the bootstrap; raise SqlFailed if Hive refuses it."""
        return Cycle(self._source.run(self._dump).seconds, self._target.run(self._load).seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._source.close()
        self._target.close()
        self._directory.cleanup()


def report(problem: object) -> None:
    """Print that Hive's replication failed; its rows then have no rival."""
    print(f"Hive's own replication failed: {problem}", file=sys.stderr, flush=True)
