"""Finds the key of the event time and the keys worth a column in a sample of JSON lines, for a trial.

A user who tries flat tables has files but no configuration. This module recognizes the key of the event time
by its values, and by its name if the values of several keys are times. Without queries, the keys with the
most values become columns, by the same rules as requested keys.
"""

from __future__ import annotations

import bz2
import gzip
import json
import re
import zlib
from codecs import BOM_UTF8
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from state.columns.counts.observations import HourCounts
from state.columns.demand import Demand, compute_demand
from state.columns.paths import KeyPath
from state.columns.requested_keys import RequestedKey
from state.columns.rules import FlatRules
from state.columns.sniffing import SEPARATORS, find_end, sniff
from state.errors import BadInput
from streaming.settings import EpochUnit
from streaming.source.event_times import read_seconds


SAMPLE_LINES: Final = 2_000
COLUMNS_MAX: Final = 60
DEPTH_MAX: Final = 4
"""Members of a key considered as the event time."""
LINE_CHARS_MAX: Final = 1 << 20
SHARE_MIN: Final = 0.9
"""Share of the rows that must have a time under the key."""
TIME_CHARS_MAX: Final = 100
EARLIEST_S: Final = 946_684_800
LATEST_S: Final = 4_102_444_800
"""The years 2000 and 2100: numbers between them count as times."""
_OPENED: Final[dict[str, Callable[..., Any]]] = {".gz": gzip.open, ".bz2": bz2.open}
"""Functions that open compressed files, by the suffix of the name."""
_TIME_NAME: Final = re.compile(
    r"(^|.*[_.-])(epoch|time|timestamp|ts|date|datetime|at|when|created|t)_?([mun]?s)?$"
    r"|(^time|.*(Time|At|Date|TIMESTAMP))(Unix)?(Nano|Micro|Milli)?s?$"
)
_NAMED_UNITS: Final = {EpochUnit.MICROSECONDS, EpochUnit.NANOSECONDS}
"""Units for which the name of the key must suggest a time, because generated ids are often as large as such
times.
"""


@dataclass(frozen=True, slots=True)
class TimeKey:
    """The key of the event time, and the form of its values."""

    key: KeyPath
    unit: EpochUnit


def read_sample(files: Sequence[Path]) -> list[str]:
    """Return some lines of each file. Raises BadInput for a file that is damaged or does not hold one JSON
    object in each line.
    """
    each_max = max(1, SAMPLE_LINES // max(1, len(files)))
    lines: list[str] = []
    for path in files:
        taken = _read_some(path, each_max)
        if taken and not any(_parse(document) for document in separate_documents(taken)):
            raise BadInput(
                "a file must contain one JSON object per line",
                path=str(path),
                line=taken[0][:80],
                hint="Convert an array with jq -c '.[]' FILE, and documents over several lines with jq -c . "
                "FILE. Names of compressed files must end with .gz or .bz2.",
            )
        lines += taken
    if not lines:
        raise BadInput("the files contain no line", files=[str(path) for path in files][:20])
    return lines


def find_time_key(lines: Sequence[str], named: KeyPath | None = None) -> TimeKey:
    """Return the key of the event time: ``named``, or the key whose values and name most resemble a time.
    Raises BadInput if no key does.
    """
    rows = [document for line in lines if (document := _parse(line)) is not None]
    units_by_key: dict[tuple[str, ...], list[EpochUnit | None]] = defaultdict(list)
    for row in rows:
        for members, value in _leaves(row, ()):
            unit = _unit_of(value)
            if members == (named and named.members):
                units_by_key[members].append(unit)
            elif named is None:
                units_by_key[members].append(
                    unit if unit not in _NAMED_UNITS or _is_time_name(members) else None
                )
    candidates = [
        (_is_time_name(members), -len(members), counts, members, unit)
        for members, units in units_by_key.items()
        for unit in EpochUnit
        if (counts := units.count(unit)) >= SHARE_MIN * (len(units) if named else len(rows))
    ]
    if candidates:
        *_, members, unit = max(candidates, key=lambda each: (each[:3], each[3]))
        return TimeKey(KeyPath(members), unit)
    raise BadInput(
        "no key of the events is a time" if named is None else "the values of the key are not times",
        key=None if named is None else named.text,
        hint="Name the key with --time. Its values must be seconds, milli-, micro- or nanoseconds since "
        "1970, or texts such as 2016-04-18T21:05:00Z.",
    )


def separate_documents(lines: Sequence[str]) -> list[str]:
    """Return the JSON documents of the lines. A line may hold several objects, separated as by the driver."""
    documents: list[str] = []
    for line in lines:
        rest = line
        while (end := find_end(rest)) and (behind := rest[end:].lstrip(SEPARATORS)):
            documents.append(rest[:end])
            rest = behind
        documents.append(rest)
    return documents


def choose_keys(lines: Sequence[str]) -> Demand:
    """Return the keys that become columns without queries: at most ``COLUMNS_MAX`` keys, those with the most
    values.
    """
    window = HourCounts({0: sniff(lines, FlatRules())}).window()
    inner = {key.parent for key in window}
    leaves = [key for key in window if key not in inner]
    requested = [RequestedKey(key, frozenset({"sample"}), 1, window[key].total.values) for key in leaves]
    rules = FlatRules(columns_max=COLUMNS_MAX, columns_per_user_max=COLUMNS_MAX)
    fills = {key: each.total.fill_rate for key, each in window.items()}
    return compute_demand(requested, rules, fills)


def _read_some(path: Path, lines_max: int) -> list[str]:
    if not path.is_file():
        raise BadInput(
            "a sample must be a regular file, because Tideline reads it twice",
            path=str(path),
            hint="Write the events to a file first.",
        )
    try:
        return list(islice(_read_lines(path), lines_max))
    except (OSError, EOFError, zlib.error) as error:
        raise BadInput(
            "a file cannot be read",
            path=str(path),
            reason=str(error)[:200],
            hint="It is damaged or truncated, or its name does not show how it is compressed (.gz, .bz2). "
            "Omit it, or replace it.",
        ) from error


def _read_lines(path: Path) -> Iterator[str]:
    opened = _OPENED.get(path.suffix, open)
    with opened(path, "rb") as file:
        if file.read(len(BOM_UTF8)) != BOM_UTF8:  # which Spark skips as well
            file.seek(0)
        for line in file:
            text = line[:LINE_CHARS_MAX].decode(errors="replace").strip()
            if text:
                yield text


def _parse(line: str) -> dict[str, Any] | None:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) else None


def _leaves(document: dict[str, Any], above: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, value in document.items():
        if isinstance(value, dict):
            if len(above) + 1 < DEPTH_MAX:
                yield from _leaves(value, (*above, name))
        elif name and value is not None:
            yield (*above, name), value


def _is_time_name(members: tuple[str, ...]) -> bool:
    return _TIME_NAME.fullmatch(members[-1]) is not None


def _unit_of(value: object) -> EpochUnit | None:
    """Return the time format in which the value is between 2000 and 2100; None if there is none."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    text = str(value)[:TIME_CHARS_MAX]
    return next((unit for unit in EpochUnit if _is_within(read_seconds(text, unit))), None)


def _is_within(seconds: int | None) -> bool:
    return seconds is not None and EARLIEST_S <= seconds <= LATEST_S
