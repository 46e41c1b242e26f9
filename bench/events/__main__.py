"""All cases of events: ``python -m bench.events [--quick] [--json]``.

``bench.catalog`` measures ``catalog_apply``.
"""

from __future__ import annotations

from collections.abc import Iterator

from bench.events import daemon_process, replay_overhead, throughput, visibility
from bench.events.environment import open_stack
from bench.report import Row, main


def cases(quick: bool) -> Iterator[Row]:
    with open_stack() as endpoints:
        yield from daemon_process.measure_idle(endpoints, quick=quick)
        yield from visibility.cases(endpoints, quick=quick)
        yield from replay_overhead.cases(endpoints, quick=quick)
        yield from throughput.cases(endpoints, quick=quick)
        yield from daemon_process.measure_recovery(endpoints, quick=quick)


if __name__ == "__main__":
    main("events", cases)
