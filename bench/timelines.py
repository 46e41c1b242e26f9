"""Compares timelines with the recursion over sets (as in Lens), and with roaring bitmaps (package
``pyroaring``).

The data are seeded minutes of one year (525,600) and of ten years (5,258,880), with the periods MINUTELY to
YEARLY. The benchmark compares the results of all candidates before it times them. No code here waits or uses
threads, so times are processor times. ``--quick`` omits the rivals of ten years.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sized
from itertools import pairwise

from pyroaring import BitMap

from bench.report import Row, main, median_s, row
from dev.fixtures.recursive_cover import cover_recursively
from state.timelines.cover import cover
from state.timelines.periods import UpdatePeriod, sort_longest_first
from state.timelines.runs import Runs
from state.timelines.storage_forms import ENDS_AND_HOLES, RANGES, STORE_ALL, StorageForm
from state.timelines.tiling import Storage
from state.timelines.time_ranges import TimePartition, TimeRange
from state.timelines.timeline import Timeline


P = UpdatePeriod
PERIODS = (P.MINUTELY, P.HOURLY, P.DAILY, P.MONTHLY, P.YEARLY)
SPANS = {"1y": TimeRange.parse("2014", "2015"), "10y": TimeRange.parse("2014", "2024")}
RECURSION_RIVAL = "seed's recursion over a set"
BITMAP_RIVAL = "roaring bitmap"
Held = Mapping[UpdatePeriod, Runs]
Answer = tuple[list[tuple[UpdatePeriod, int, int]], list[tuple[int, int]]]


def cover_cases(quick: bool) -> Iterator[Row]:
    yield from measure_cover_full(quick)
    yield from measure_cover_holes()
    yield from measure_cover_rollups(quick)
    yield measure_cover_alternate()


def other_cases(quick: bool) -> Iterator[Row]:  # noqa: ARG001 - takes a few seconds in any run
    yield from measure_operations()
    yield measure_load()
    yield from measure_properties()


def measure_cover_full(quick: bool) -> Iterator[Row]:
    for name, span in SPANS.items():
        held = as_minutes(build_full(P.MINUTELY, span))
        own_s = time_cover(held, span, number=1_000)
        yield row(
            f"cover_full_{name}", own_s * 1e6, "µs", at_most=10, rival=time_recursion(held, span, quick, 1e6)
        )


def measure_cover_holes() -> Iterator[Row]:
    for name, span in SPANS.items():
        held = as_minutes(build_with_holes(P.MINUTELY, span, 0.001))
        per_run = 1e6 / len(held[P.MINUTELY])
        yield row(
            f"cover_holes_{name}",
            time_cover(held, span, number=20) * per_run,
            "µs/run",
            at_most=0.4,
            rival=time_bitmaps(held, span, per_run),
        )


def measure_cover_rollups(quick: bool) -> Iterator[Row]:
    for (name, span), limit in zip(SPANS.items(), (50, 200), strict=True):
        holes = {P.MONTHLY: 0.1, P.DAILY: 0.03, P.HOURLY: 0.01}
        held = {period: build_with_holes(period, span, share) for period, share in holes.items()}
        held |= {P.MINUTELY: build_full(P.MINUTELY, span), P.YEARLY: Runs()}
        own_s = time_cover(held, span, number=200)
        yield row(
            f"cover_rollups_{name}",
            own_s * 1e6,
            "µs",
            at_most=limit,
            rival=time_recursion(held, span, quick, 1e6),
        )


def measure_cover_alternate() -> Row:
    span = SPANS["1y"]
    minutes = build_full(P.MINUTELY, span)
    assert minutes.first is not None
    assert minutes.last is not None
    held = as_minutes(Runs.of(range(minutes.first, minutes.last + 1, 2)))
    per_run = 1e6 / len(held[P.MINUTELY])
    own_s = time_cover(held, span, number=1)
    return row(
        "cover_alternate_1y", own_s * per_run, "µs/run", at_most=1, rival=time_bitmaps(held, span, per_run)
    )


def measure_operations() -> Iterator[Row]:
    runs = build_with_holes(P.MINUTELY, SPANS["1y"], 0.001)
    members = set(runs)
    chosen = random.Random(3).sample(range(min(members), max(members)), 100_000)
    timeline = Timeline(P.MINUTELY, "dt", runs=runs)
    asked = [TimePartition(P.MINUTELY, ordinal) for ordinal in chosen]
    assert [ordinal in runs for ordinal in chosen] == [ordinal in members for ordinal in chosen]
    set_us = measure_per_item_us(lambda: [ordinal in members for ordinal in chosen], chosen)
    runs_us = measure_per_item_us(lambda: [ordinal in runs for ordinal in chosen], chosen)
    yield row("exists", runs_us, "µs", at_most=0.3, rival=("set", set_us))
    whole = build_full(P.MINUTELY, SPANS["1y"])
    yield row(
        "exists_full",
        measure_per_item_us(lambda: [ordinal in whole for ordinal in chosen], chosen),
        "µs",
        at_most=0.3,
    )
    timeline_us = measure_per_item_us(lambda: [timeline.exists(partition) for partition in asked], asked)
    yield row("exists_partition", timeline_us, "µs", rival=("set", set_us))
    in_order = range(min(members), min(members) + 525_600)
    set_us = measure_per_item_us(lambda: add_all(set(), in_order), in_order)
    yield row(
        "add_in_order",
        measure_per_item_us(lambda: add_all(Runs(), in_order), in_order),
        "µs",
        at_most=1,
        rival=("set", set_us),
    )
    yield row("run_size", runs.size_bytes() / len(runs), "B", at_most=16)


def measure_load() -> Row:
    texts = [P.MINUTELY.format(ordinal) for ordinal in build_full(P.MINUTELY, SPANS["1y"])]
    random.Random(4).shuffle(texts)
    assert Runs.of(map(P.MINUTELY.parse, texts)) == build_full(P.MINUTELY, SPANS["1y"])
    own_s = cpu_median_s(lambda: Runs.of(map(P.MINUTELY.parse, texts)), repeats=3)
    bitmap_s = cpu_median_s(lambda: BitMap(list(map(P.MINUTELY.parse, texts))), repeats=3)
    return row("load_text_1y", own_s, "s", at_most=1, rival=(BITMAP_RIVAL, bitmap_s))


def measure_properties() -> Iterator[Row]:
    runs = build_full(P.MINUTELY, SPANS["1y"])
    rival = ("StoreAll", time_round_trip(STORE_ALL, runs, repeats=3) * 1e3)
    for form in (ENDS_AND_HOLES, RANGES):
        name = form.name.replace("-", "_")
        yield row(
            f"properties_full_1y_{name}",
            time_round_trip(form, runs, repeats=500) * 1e3,
            "ms",
            at_most=1,
            rival=rival,
        )


def time_round_trip(form: StorageForm, runs: Runs, *, repeats: int) -> float:
    """Return the time of writing a timeline to properties and reading it back."""
    timeline = Timeline(P.MINUTELY, "dt", form=form, runs=runs)
    assert Timeline.from_properties(timeline.to_properties(), P.MINUTELY, "dt").runs == runs
    return cpu_median_s(
        lambda: Timeline.from_properties(timeline.to_properties(), P.MINUTELY, "dt"), repeats=repeats
    )


def time_cover(held: Held, span: TimeRange, *, number: int) -> float:
    """Return the time of finding a cover with all its runs and missing spans."""
    storages = [Storage("t", held)]
    cover(storages, span).check()
    return cpu_median_s(lambda: cover(storages, span), repeats=7, number=number)


def time_recursion(held: Held, span: TimeRange, quick: bool, scale: float) -> tuple[str, float] | None:
    """Return the time of the recursion, after checking that it finds the same partitions."""
    if quick and span is not SPANS["1y"]:
        return None
    sets = {period: set(runs) for period, runs in held.items()}
    own = [(part.period, part.ordinal) for _, part in cover([Storage("t", held)], span).partitions()]
    assert cover_recursively(sets, span).parts == own
    return RECURSION_RIVAL, cpu_median_s(lambda: cover_recursively(sets, span), repeats=1) * scale


def time_bitmaps(held: Held, span: TimeRange, scale: float) -> tuple[str, float]:
    """Return the time of a cover over bitmaps,
    after checking that it finds the same runs and missing spans.
    """
    bitmaps = {period: BitMap(list(runs)) for period, runs in held.items()}
    answer = cover([Storage("t", held)], span)
    own = [(run.period, run.first, run.last + 1) for run in answer.runs()]
    missing = [(stretch.start_s, stretch.end_s) for stretch in answer.missing()]
    assert cover_with_bitmaps(bitmaps, span) == (own, missing)
    return BITMAP_RIVAL, cpu_median_s(lambda: cover_with_bitmaps(bitmaps, span), repeats=5) * scale


def cover_with_bitmaps(held: Mapping[UpdatePeriod, BitMap], span: TimeRange) -> Answer:
    """Return a cover from bitmaps: for each open span, one set difference finds the absent partitions, which
    separate the runs.
    """
    found: list[tuple[int, UpdatePeriod, int, int]] = []
    rest = [(span.start_s, span.end_s)]
    for period in sort_longest_first(period for period, bitmap in held.items() if bitmap):
        open_: list[tuple[int, int]] = []
        for low_s, high_s in rest:
            first, end = period.ceil(low_s), period.floor(high_s)
            if first >= end:
                open_.append((low_s, high_s))
                continue
            absent = [first - 1, *(BitMap(range(first, end)) - held[period]), end]
            present = [(left + 1, right) for left, right in pairwise(absent) if right - left > 1]
            found += [(period.start_s(start), period, start, stop) for start, stop in present]
            edges = [low_s, *(edge for pair in present for edge in period.starts_s(pair)), high_s]
            open_ += [
                (edges[at], edges[at + 1]) for at in range(0, len(edges), 2) if edges[at] < edges[at + 1]
            ]
        rest = open_
    return [(period, start, stop) for _, period, start, stop in sorted(found, key=lambda run: run[0])], rest


def cpu_median_s(call: Callable[[], object], *, repeats: int, number: int = 1) -> float:
    return median_s(call, repeats=repeats, number=number, cpu=True)


def build_full(period: UpdatePeriod, span: TimeRange) -> Runs:
    return Runs((period.ceil(span.start_s), period.floor(span.end_s)))


def build_with_holes(period: UpdatePeriod, span: TimeRange, share: float) -> Runs:
    """Return all partitions except a random part, which depends only on the seed."""
    runs = build_full(period, span)
    members = range(*next(runs.pairs()))
    for hole in random.Random(len(members)).sample(members, max(1, round(len(members) * share))):
        runs.drop(hole)
    return runs


def as_minutes(runs: Runs) -> dict[UpdatePeriod, Runs]:
    return {period: runs if period is P.MINUTELY else Runs() for period in PERIODS}


def measure_per_item_us(call: Callable[[], object], items: Sized) -> float:
    return cpu_median_s(call, repeats=7) / len(items) * 1e6


def add_all(target: Runs | set[int], ordinals: range) -> None:
    add = target.add
    for ordinal in ordinals:
        add(ordinal)


if __name__ == "__main__":
    main("timelines", {"cover": cover_cases, "operations": other_cases})
