"""The watermark: the event time up to which the stream has advanced.

Each partition of the source has advanced to its latest event, and the stream to its slowest partition. A
partition without events for ``idle_s`` does not count; otherwise one silent partition would keep every hour
from being sealed. If all partitions are silent, the fastest one counts. The watermark never goes back,
because the hours that it passed may be sealed.

The watermark is a value stored with every batch. A batch that runs again after a crash uses the same
watermark and therefore routes every row as before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PartitionProgress:
    """The progress of one partition: its latest event (None before the first), and the time of the last batch
    with its events.
    """

    latest_s: int | None
    active_s: int


@dataclass(frozen=True, slots=True)
class Watermark:
    """The progress of each partition and of the stream."""

    partitions: Mapping[int, PartitionProgress] = field(default_factory=dict)
    reached_s: int | None = None
    """The watermark; None before the first event."""

    def advance(self, latest_s: Mapping[int, int | None], now_s: int, idle_s: int) -> Watermark:
        """Return the watermark after a batch at ``now_s`` with these latest events by partition (None: no
        event).
        """
        partitions = dict(self.partitions)
        for number, latest in latest_s.items():
            progress = partitions.get(number, PartitionProgress(None, now_s))
            if latest is not None:
                progress = PartitionProgress(max(latest, progress.latest_s or latest), now_s)
            partitions[number] = progress
        return Watermark(partitions, _later(self.reached_s, _slowest(partitions, now_s - idle_s)))

    def to_json(self) -> dict[str, object]:
        """Return a value for a JSON file."""
        return {
            "reached": self.reached_s,
            "partitions": {str(n): [p.latest_s, p.active_s] for n, p in sorted(self.partitions.items())},
        }

    @classmethod
    def of_json(cls, form: Mapping[str, object]) -> Watermark:
        """Return the watermark that ``to_json`` encoded."""
        partitions = form["partitions"]
        assert isinstance(partitions, dict), form
        reached = form["reached"]
        assert reached is None or isinstance(reached, int), form
        return cls(
            {int(number): PartitionProgress(*progress) for number, progress in partitions.items()}, reached
        )

    def check(self) -> None:
        """Assert that the watermark is not ahead of every event."""
        latest = [progress.latest_s for progress in self.partitions.values() if progress.latest_s is not None]
        assert self.reached_s is None or self.reached_s <= max(latest), self


def _slowest(partitions: Mapping[int, PartitionProgress], active_since_s: int) -> int | None:
    active = [progress for progress in partitions.values() if progress.active_s > active_since_s]
    if any(progress.latest_s is None for progress in active):
        return None
    latest = [progress.latest_s for progress in active if progress.latest_s is not None]
    if latest:
        return min(latest)
    return max(
        (progress.latest_s for progress in partitions.values() if progress.latest_s is not None), default=None
    )


def _later(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return max(one, other)
