"""Maintains the state files while the daemon runs: makes backups on request, and checks open files.

Every ``CHECK_EVERY_S``, it checks each open file: the structure of its pages (``PRAGMA quick_check``), and
the checksum of every value. If a check finds damage, it marks the store as failed, so that the loop that owns
it stops with StateCorrupt before it reads or writes anything else. Checks read in small steps and pause
between them.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Final

import structlog

from daemon.process.inbox import Inbox, Request, requests_directory
from daemon.process.loops.heartbeat import Heartbeat, wait
from daemon.state_directory.backup import write_backup
from daemon.state_directory.directory import open_stores
from state.errors import InvalidRequest, StateCorrupt, TidelineError
from state.store.sqlite import SqliteStore


log = structlog.get_logger(__name__)

LOOP: Final = "state"
INBOX: Final = (LOOP, "files")
"""Kind and name of the inbox."""
CHECK_EVERY_S: Final = 3600.0
POLL_S: Final = 0.5
ROWS_PER_STEP: Final = 512
STEP_PAUSE_S: Final = 0.01


class StateKeeper:
    """Serves requests about the state directory, and checks its open files."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._inbox = Inbox(requests_directory(state_dir, *INBOX))

    def run(self, heartbeat: Heartbeat) -> None:
        """Run until a stop request."""
        self._inbox.open()
        heartbeat.following()
        next_check_s = time.monotonic() + CHECK_EVERY_S
        while not heartbeat.stopping.is_set():
            self._inbox.serve(lambda request: self._do(request, heartbeat))
            if time.monotonic() >= next_check_s:
                self.check(heartbeat)
                next_check_s = time.monotonic() + CHECK_EVERY_S
            wait(heartbeat, POLL_S)

    def check(self, heartbeat: Heartbeat) -> None:
        """Check every open file."""
        for store in list(open_stores().values()):
            if heartbeat.stopping.is_set():
                return
            try:
                _check(store, heartbeat)
            except StateCorrupt as error:
                log.error(  # noqa: TRY400 - the traceback says nothing more
                    "a state file is damaged", path=store.path, code=error.code, problem=str(error)
                )
                store.fail(error)
            except TidelineError as error:  # closed meanwhile, or failed already: its owner reports that
                log.debug("a state file could not be checked", path=store.path, problem=str(error))

    def _do(self, request: Request, heartbeat: Heartbeat) -> dict[str, Any]:
        if request.get("do") != "backup":
            raise InvalidRequest("unknown request", request=str(request.get("do"))[:100])
        return write_backup(self._state_dir, Path(str(request["directory"])), heartbeat.beat)


def _check(store: SqliteStore, heartbeat: Heartbeat) -> None:
    store.check_quickly()
    with store.snapshot() as snapshot:
        for number, _ in enumerate(snapshot.scan(b"", None)):
            if number % ROWS_PER_STEP == 0:
                heartbeat.beat()
                if heartbeat.stopping.wait(STEP_PAUSE_S):
                    return
