"""Where histograms of times are cut, in seconds.

Calls, events and answers are cut at the same places between a millisecond and 2.5 seconds, so that one can be set beside another;
they differ in where they begin and end. What people wait for is cut at the limits that people set: a minute, a quarter of an hour,
a day. The bounds are public: queries of dashboards name them.
"""

from __future__ import annotations

from typing import Final


_COMMON_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)

APPLY_S: Final = (0.0005, *_COMMON_S, 5, 10, 60, 600)
"""One event: a call that changes nothing, or the copy of all files of a partition."""

CALL_S: Final = (*_COMMON_S, 5, 10, 30, 60)
"""One call of a metastore, with a network and a database behind it."""

ANSWER_S: Final = (0.0001, 0.00025, 0.0005, *_COMMON_S, 10)
"""One answer from the partition index, out of memory or a local file."""

BATCH_S: Final = (0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 14400)
"""One piece of work of a Spark driver."""

VISIBLE_S: Final = (0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 14400, 86400)
"""From an event on the source to its effect."""
