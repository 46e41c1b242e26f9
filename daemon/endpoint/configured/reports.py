"""An endpoint's reports to the daemon that runs it: events as JSON lines on a pipe.

========= ==========================================================================
event     content
========= ==========================================================================
started   ``listen``: the address
report    ``metrics``: all metrics of the endpoint; ``differing``: tables, every ``REPORT_S``
behind    ``event_id``: a request waits for this event; the daemon's relay should read it at once
stopped   ``reason``, and ``message`` after an error
========= ==========================================================================

A separate thread writes them, so a daemon that does not read never delays a client.
"""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from prometheus_client.core import Metric


if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from prometheus_client import CollectorRegistry

    from daemon.endpoint.verification.differing_tables import AnswerDifference


REPORT: Final = "report"
BEHIND: Final = "behind"
STOP_REQUESTED: Final = "stop-requested"
REPORT_S: Final = 2.0
PREFIX: Final = "tideline_endpoint_"
"""Metrics reported; those of the process itself are the daemon's own."""


class Reports:
    """Writes the events of one endpoint to a file descriptor until ``close``, or until no process reads."""

    def __init__(
        self,
        descriptor: int,
        registry: CollectorRegistry,
        differing: Callable[[], Sequence[AnswerDifference]],
    ) -> None:
        self._descriptor = descriptor
        self._registry = registry
        self._differing = differing
        self._awaited: int | None = None
        self._wake = threading.Event()
        self._closing = False
        self._thread = threading.Thread(target=self._run, name="reports", daemon=True)

    def start(self, address: str) -> None:
        """Write the event ``started``, and start the thread that writes the reports."""
        self._write({"event": "started", "listen": address})
        self._thread.start()

    def behind(self, event_id: int) -> None:
        """Report that a request waits for an event id. Returns at once."""
        self._awaited = event_id
        self._wake.set()

    def close(self, reason: str, message: str | None = None) -> None:
        """Report the end."""
        self._closing = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(REPORT_S)
        self._write(
            {"event": "stopped", "reason": reason} | ({} if message is None else {"message": message})
        )

    def _run(self) -> None:
        next_s = 0.0
        while not self._closing:
            now_s = time.monotonic()
            if now_s >= next_s:
                self._write(self.report())
                next_s = now_s + REPORT_S
            self._wake.wait(next_s - now_s)
            self._wake.clear()
            awaited, self._awaited = self._awaited, None
            if awaited is not None:
                self._write({"event": BEHIND, "event_id": awaited})
        self._write(self.report())

    def report(self) -> dict[str, Any]:
        """Return the event ``report``."""
        metrics = [
            [
                family.name,
                family.documentation,
                family.type,
                [[s.name, s.labels, s.value] for s in family.samples],
            ]
            for family in self._registry.collect()
            if family.name.startswith(PREFIX)
        ]
        return {"event": REPORT, "metrics": metrics, "differing": [asdict(one) for one in self._differing()]}

    def _write(self, event: Mapping[str, Any]) -> None:
        line = json.dumps(event, separators=(",", ":")) + "\n"
        try:
            os.write(self._descriptor, line.encode())
        except OSError:
            return  # the daemon has ended; this process ends with it


def read_metrics(rows: Any, source: str) -> Iterator[Metric]:
    """Yield the metrics of a report with the label ``source``.

    Raises TypeError and ValueError for anything else.
    """
    for name, text, kind, samples in rows:
        family = Metric(str(name), str(text), str(kind))
        for sample, labels, value in samples:
            family.add_sample(str(sample), {"source": source, **labels}, float(value))
        yield family
