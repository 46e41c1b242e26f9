"""Sums the metrics of many policies, except those that alerts need for each policy.

A metric family with a label for policies has a sample for each policy. With more than ``policies_max``
policies, only metrics for alerts stay separate: the lag of each policy, and the state, quarantined tables and
failed compactions of policies that have some. The other samples become one sample with the label ``all``. It
is the sum of counts, the smallest position or time left, and the largest lag or other duration. So an alert
on any policy also fires on ``all``, and ``tideline status`` names the policy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from daemon.process.metrics import ALL


_LABELS: Final = ("projection", "policy", "reader")
"""Labels that have a value for each policy."""

_KEPT: Final[dict[str, Callable[[Sample], bool]]] = {
    "tideline_projection_lag_seconds": lambda _: True,
    "tideline_projection_state": lambda sample: sample.value == 1 and sample.labels["state"] != "following",
    "tideline_projection_quarantined_tables": lambda sample: sample.value > 0,
    "tideline_target_compactions": lambda sample: (
        sample.value > 0 and sample.labels["state"] in {"failed", "did not initiate"}
    ),
}
"""The families in which some samples stay separate, with the function that selects these samples."""

_SMALLEST: Final = ("_left_seconds", "_retention_seconds", "_timestamp_seconds", "_event_id")
_LARGEST: Final = ("_seconds", "_lag_events")


def sum_up(families: Iterable[Metric], policies_max: int) -> Iterable[Metric]:
    """Yield the families, with summed samples if there are more than ``policies_max`` policies."""
    for family in families:
        label = _find_label(family)
        if label is None or len({sample.labels[label] for sample in family.samples}) <= policies_max:
            yield family
        else:
            yield _sum_up(family, label)


def _find_label(family: Metric) -> str | None:
    if not family.samples:
        return None
    return next((label for label in _LABELS if label in family.samples[0].labels), None)


def _sum_up(family: Metric, label: str) -> Metric:
    keeps = _KEPT.get(family.name, _keeps_none)
    combine = _choose(family)
    summed = Metric(family.name, family.documentation, family.type)
    totals: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in family.samples:
        if keeps(sample):
            summed.samples.append(sample)
            continue
        key = sample.name, tuple({**sample.labels, label: ALL}.items())
        totals[key] = combine(totals[key], sample.value) if key in totals else sample.value
    for (name, labels), value in totals.items():
        summed.add_sample(name, dict(labels), value)
    return summed


def _choose(family: Metric) -> Callable[[float, float], float]:
    """Return the function that combines two values of the family."""
    if family.type == "counter":
        return _add
    if family.name.endswith(_SMALLEST):
        return min
    return max if family.name.endswith(_LARGEST) else _add


def _keeps_none(_: Sample) -> bool:
    return False


def _add(one: float, other: float) -> float:
    return one + other
