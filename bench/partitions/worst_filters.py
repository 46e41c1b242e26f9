"""Measures the most expensive filters within the size limits, on 100,000 partitions in SQLite. Each must be
answered, or refused with a typed error, in time.

Each filter takes the same steps as for a client: it is parsed, planned and answered from a snapshot. Times
are processor times of the thread, so they do not depend on other processes. No plan is cached, because every
filter is run once.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Final

from bench.partitions.plans import DAYS, QUICK_DAYS, TABLE, build_grid, fill_index
from bench.report import Row, row
from state.errors import FilterTooExpensive, LimitExceeded
from state.partitions.filters.dialect import CONDITIONS_MAX, DEPTH_MAX, FILTER_CHARS_MAX
from state.partitions.index.check_budget import AnswerBudget
from state.partitions.index.partition_index import IndexSnapshot, PartitionIndex
from state.store.sqlite import SqliteStore


LIMIT_S: Final = 2


def worst_filter_cases(quick: bool) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "index.db"), schema_version=1, durable=False, snapshots=True)
        try:
            index = fill_index(store, build_grid(QUICK_DAYS if quick else DAYS))
            slowest_s = 0.0
            for name, text in build_filters().items():
                taken_s, outcome = run_filter(store, index, text)
                slowest_s = max(slowest_s, taken_s)
                yield row(f"worst_filter_100k, {name}: {outcome}", taken_s, "s", at_most=LIMIT_S)
            yield row("worst_filter_100k", slowest_s, "s", at_most=LIMIT_S)
        finally:
            store.close()


def run_filter(store: SqliteStore, index: PartitionIndex, text: str) -> tuple[float, str]:
    """Return the processor time of one filter and how it ended."""
    began_s = time.thread_time()
    try:
        budget = AnswerBudget()
        with store.snapshot(budget.look) as reader:
            snapshot = IndexSnapshot(index, reader, budget)
            found = len(snapshot.names(snapshot.prepare(TABLE, text)))
    except (FilterTooExpensive, LimitExceeded) as error:
        return time.thread_time() - began_s, f"refused ({error.code})"
    return time.thread_time() - began_s, f"{found:,} found"


def build_filters() -> dict[str, str]:
    """Return filters of many shapes, each as large as the limits allow."""
    many = CONDITIONS_MAX
    mixed = cycle(
        ("ds > '2024-{:02}-05'", "hr = {}", "region != 'r{:02}'", "ds like '%{}'", "hr between {} and 99")
    )
    leaves = list(islice((form.format(number % 12 + 1) for number, form in enumerate(mixed)), many))
    unequal = [f"region != 'x{number}'" for number in range(many)]
    pairs = [f"(hr = {number % 24} and region != 'y{number}')" for number in range(many // 2)]
    either = [f"(hr = {number % 24} or region != 'y{number}')" for number in range(many // 2)]
    deep = "region != 'r'"
    for number in range(DEPTH_MAX):
        deep = f"({deep} {('and', 'or')[number % 2]} hr != {number})"
    chars = FILTER_CHARS_MAX - 100
    return {
        "conditions of all kinds with OR": " or ".join(leaves),
        "conditions of all kinds with AND": " and ".join(leaves),
        "AND and OR in turn": "".join(
            leaf + (" and ", " or ")[number % 2] for number, leaf in enumerate(leaves[:-1])
        )
        + leaves[-1],
        "inequalities with AND": " and ".join(unequal),
        "inequalities with OR": " or ".join(unequal),
        "ORs of ANDs": " or ".join(pairs),
        "ANDs of ORs": " and ".join(either),
        "200 ANDs of ORs of three columns": " and ".join(
            f"(ds > '2024-03-{number % 28 + 1:02}' or hr != {number % 24} or region like '%{number % 10}')"
            for number in range(200)
        ),
        "parentheses as deep as allowed": deep,
        "a list of points": f"(hr) in ({','.join(map(str, range(many)))})",
        "a list of texts in a later column": f"(region) in ({','.join(repr(f'z{n}') for n in range(many))})",
        "a list of what is not in it": f"(region) not in ({','.join(repr(f'z{n}') for n in range(many))})",
        "two long lists": f"(hr) in ({','.join(map(str, range(many // 2)))})"
        f" and (region) in ({','.join(repr(f'r{n:02}') for n in range(many // 2))})",
        "structs": "(struct(hr, region)) in ("
        + ",".join(f"struct({n % 24}, 'r{n // 24:02}')" for n in range(many // 2))
        + ")",
        "structs that are excluded": "(struct(hr, region)) not in ("
        + ",".join(f"struct({n % 24}, 'q{n}')" for n in range(many // 2))
        + ")",
        "ranges that are excluded": " and ".join(
            f"ds not between '2024-{n % 12 + 1:02}-{n % 28 + 1:02}' and '2024-{n % 12 + 1:02}-29x{n}'"
            for n in range(many // 2)
        ),
        "patterns": " or ".join(f"region like '%{n}%x'" for n in range(many)),
        "patterns with single wildcards": " or ".join(f"region like '%_{n}_%x'" for n in range(many)),
        "patterns with many wildcards": " or ".join(
            f"region like '_1_2_3_4_5_6_7_8_{n}'" for n in range(many)
        ),
        "a pattern of wildcards": "region like '" + "%r" * (chars // 2) + "'",
        "a pattern of single wildcards": "region like '" + "_%" * (chars // 2) + "'",
        "a long text": "region != '" + "x" * chars + "'",
        "a filter of blanks and one condition": "hr != 5" + " " * chars,
    }
