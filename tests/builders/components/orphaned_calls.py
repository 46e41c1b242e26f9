"""The calls of killed clients that a metastore still works on.

A metastore that waits for a lock of its database notices the end of a client only after the call. If the
database then chooses the call as the victim of a deadlock, ``RetryingHMSHandler`` makes it again, up to ten
times: a ``drop_table`` of a killed process took effect 22 s later, on the table that the next process had
loaded meanwhile. A test that kills a client and looks at the result of the next one waits here first.
"""

from __future__ import annotations

import time
from pathlib import Path
from urllib.parse import urlsplit


TIMEOUT_S = 60.0
CLOSE_WAIT = "08"
"""The client has closed the connection, and the server has not (``include/net/tcp_states.h``)."""


def wait_for_orphaned_calls(*uris: str) -> None:
    """Wait until the metastores at URIS, on this machine, have no call of a client that is gone."""
    ports = {urlsplit(uri).port for uri in uris}
    deadline_s = time.monotonic() + TIMEOUT_S
    while orphans := ports & _ports_with_orphans():
        assert time.monotonic() < deadline_s, orphans
        time.sleep(0.02)


def _ports_with_orphans() -> set[int]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            _, local, _, state, *_ = line.split()
            if state == CLOSE_WAIT:
                found.add(int(local.rpartition(":")[2], 16))
    return found
