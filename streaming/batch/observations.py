"""Makes the observations of a batch without a second pass over its rows.

The footers of the files that were just written state how many values each column has, and between which
integers they lie. Values that did not fit are in rows with ``_rescued``; the driver inspects only a sample of
these rows. The columns and types of the next batch follow from both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from state.columns.counts.observations import NO_COUNTS, KeyCounts, Observations
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slots import Layout, Slot
from state.columns.sniffing import sniff
from state.columns.types import DOUBLE_EXACT_MAX, NOTHING, ColumnType, Evidence, integers
from streaming.table.value_counts import add_counts


@dataclass(frozen=True, slots=True)
class FileCounts:
    """The statistics in a file's footer, by slot."""

    rows: int
    nonnull: tuple[int, ...]
    bounds: Mapping[int, tuple[int, int]]
    """Least and greatest value of integer columns with values."""


@dataclass(frozen=True, slots=True)
class Misfits:
    """The rows of an hour with ``_rescued``: their number, and the texts of a sample."""

    rows: int
    texts: tuple[str, ...]


def merge_counts(files: Iterable[FileCounts]) -> FileCounts:
    """Return the combined counts of several files."""
    rows, nonnull, bounds = 0, (), {}  # type: int, tuple[int, ...], dict[int, tuple[int, int]]
    for each in files:
        rows += each.rows
        nonnull = add_counts(nonnull, each.nonnull)
        for slot, (least, most) in each.bounds.items():
            bound = bounds.get(slot, (least, most))
            bounds[slot] = (min(least, bound[0]), max(most, bound[1]))
    return FileCounts(rows, nonnull, bounds)


def observe_batch(layout: Layout, counts: FileCounts, misfits: Misfits, rules: FlatRules) -> Observations:
    """Return the observations of an hour in a batch, for keys with a column."""
    misfitting = find_misfits(layout, misfits, rules)
    keys = {}
    for slot in layout.live:
        assert slot.key is not None, slot
        nonnull = counts.nonnull[slot.index] if slot.index < len(counts.nonnull) else 0
        evidence = _evidence(slot, nonnull, counts.bounds.get(slot.index))
        missing = misfitting.get(slot.key, NO_COUNTS)
        room = max(0, counts.rows - nonnull)
        kinds = missing.kinds.limit(room)
        keys[slot.key] = KeyCounts(counts.rows, nonnull, kinds.total, evidence.join(missing.evidence), kinds)
    sniffed = sniff(misfits.texts, rules, ())
    malformed, trailing = min(sniffed.malformed, counts.rows), min(sniffed.trailing, counts.rows)
    return Observations(counts.rows, malformed, keys, trailing)


def find_misfits(layout: Layout, misfits: Misfits, rules: FlatRules) -> dict[KeyPath, KeyCounts]:
    """Return the values that did not fit, by key: their number, extrapolated from the sample, and their
    kinds.
    """
    slots = {
        slot.key: slot for slot in layout.live if slot.key is not None and slot.type is not ColumnType.STRING
    }
    misfits_by_key: dict[KeyPath, KeyCounts] = defaultdict(KeyCounts)
    for text in misfits.texts:
        for key, counts in sniff([text], rules, slots).keys.items():
            if not _fits(slots[key], counts.evidence):
                kinds = MisfitCounts.of_value(counts.evidence)
                misfits_by_key[key] = misfits_by_key[key].join(KeyCounts(0, 0, 1, counts.evidence, kinds))
    scale = misfits.rows / max(1, len(misfits.texts))
    return {key: _extrapolate(counts, scale) for key, counts in misfits_by_key.items()}


def _extrapolate(counts: KeyCounts, scale: float) -> KeyCounts:
    kinds = MisfitCounts(*(round(count * scale) for count in counts.kinds.to_list()))
    return KeyCounts(0, 0, kinds.total, counts.evidence, kinds)


def observe_sample(
    texts: Mapping[int, Sequence[str]], rules: FlatRules, keys: Collection[KeyPath]
) -> dict[int, Observations]:
    """Return the observations of ``keys`` in a sample, by hour; a key that no text contains counts as not
    seen.

    They do not include the number of rows, which the batch counts.
    """
    hours = {}
    for hour, sample in texts.items():
        sniffed = sniff(sample, rules, keys)
        unseen = {key: KeyCounts(len(sample)) for key in keys}
        hours[hour] = Observations(keys={**unseen, **sniffed.keys})
    return hours


def _evidence(slot: Slot, nonnull: int, bounds: tuple[int, int] | None) -> Evidence:
    if not nonnull:
        return NOTHING
    if slot.type.is_integer:
        return NOTHING if bounds is None else integers(*bounds)
    if slot.type is ColumnType.DOUBLE:
        return Evidence(has_floats=True)
    return Evidence(has_booleans=True) if slot.type is ColumnType.BOOLEAN else Evidence(has_text=True)


def _fits(slot: Slot, evidence: Evidence) -> bool:
    """Whether all values with this evidence fit into the slot."""
    if slot.type is ColumnType.DOUBLE:
        bounds = (evidence.least or 0, evidence.most or 0)
        exact = all(abs(bound) <= DOUBLE_EXACT_MAX for bound in bounds)
        return exact and not evidence.has_text and not evidence.has_booleans
    return slot.type.join(evidence.type) is slot.type
