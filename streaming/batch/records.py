"""Durable records of batches, their plans and results, which ensure that a batch takes effect once.

Spark runs a batch again, with the same rows, until it has recorded the batch as committed. In addition to
Spark's own notes in the checkpoint, there are two records per batch, ``tideline/batches/<id>.plan.json`` and
``.staged.json``, each written atomically:

* The *plan* is written first: slots, types, watermark and clock. A batch that runs again routes every row as
  before, even if the requested keys, the clock or the table's types have changed.
* The *staged* record is written when all files of the batch are in the staging directory. It lists every move
  to a location in the table. From then on the result of the batch is fixed: a repetition only completes the
  moves and never reads the source again.

After the moves, ``done`` is set in the staged record, and repeating the batch changes nothing. So every file
of the table belongs to a staged batch, and a compaction never sees a half-published one.

The hour counts, one JSON file next to the checkpoint, keep the observations of keys between batches. They are
written before a batch is done and name the last batch that they include, so completing a batch after a crash
counts nothing twice. If this file is lost, no row is: types stay as in the table, and keys that wait for a
column wait longer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar

from state.columns.counts.hour_counts_json import hour_counts_from_json, hour_counts_to_json
from state.columns.counts.observations import HourCounts
from state.columns.slot_codec import encode_columns, encode_parameters, parse_layout
from state.columns.slots import HOUR_S, Layout
from state.errors import StateCorrupt
from streaming.batch.watermark import Watermark
from streaming.storage.port import Storage


Record = TypeVar("Record")
KEPT: Final = 100
"""Number of past batches whose records remain for troubleshooting."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a batch splits and routes its rows."""

    batch: int
    layout: Layout
    watermark: Watermark
    """The watermark before this batch."""
    now_s: int
    textual: frozenset[int] = frozenset()
    """Slots under promotion to STRING, written as text (``streaming.upkeep.type_changes``)."""
    sampled: HourCounts = field(default_factory=HourCounts)
    """Observations in a sample of the batch, for keys without a column."""

    def to_json(self) -> dict[str, object]:
        """Return a value for a JSON file."""
        return {
            "batch": self.batch,
            "layout": encode_layout(self.layout),
            "watermark": self.watermark.to_json(),
            "now": self.now_s,
            "textual": sorted(self.textual),
            "sampled": hour_counts_to_json(self.sampled),
        }

    @classmethod
    def of_json(cls, form: Mapping[str, Any]) -> BatchPlan:
        """Return the record that ``to_json`` encoded."""
        return cls(
            batch=form["batch"],
            layout=decode_layout(form["layout"]),
            watermark=Watermark.of_json(form["watermark"]),
            now_s=form["now"],
            textual=frozenset(form["textual"]),
            sampled=hour_counts_from_json(form["sampled"]),
        )


@dataclass(frozen=True, slots=True)
class Move:
    """The move of one file from the staging directory to its final location."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class HourDelta:
    """The additions of a batch to an hour."""

    rows: int
    nonnull: tuple[int, ...]
    """Values by slot."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A batch whose files are all staged."""

    batch: int
    origin: str
    """The rows of the batch: the source's offsets as Spark recorded them."""
    directory: str
    moves: tuple[Move, ...]
    hours: Mapping[int, HourDelta]
    counts: Mapping[str, int]
    """Rows by outcome, bytes of JSON, and misfits."""
    watermark: Watermark
    """The watermark after this batch."""
    observed: HourCounts = field(default_factory=HourCounts)
    """Observations of keys, by hour."""
    done: bool = False

    def to_json(self) -> dict[str, object]:
        """Return a value for a JSON file."""
        return {
            "batch": self.batch,
            "origin": self.origin,
            "directory": self.directory,
            "moves": [[move.source, move.target] for move in self.moves],
            "hours": {
                str(hour): [each.rows, list(each.nonnull), each.bytes] for hour, each in self.hours.items()
            },
            "counts": dict(self.counts),
            "watermark": self.watermark.to_json(),
            "observed": hour_counts_to_json(self.observed),
            "done": self.done,
        }

    @classmethod
    def of_json(cls, form: Mapping[str, Any]) -> StagedBatch:
        """Return the record that ``to_json`` encoded."""
        return cls(
            batch=form["batch"],
            origin=form["origin"],
            directory=form["directory"],
            moves=tuple(Move(*each) for each in form["moves"]),
            hours={
                int(hour): HourDelta(rows, tuple(nonnull), size_bytes)
                for hour, (rows, nonnull, size_bytes) in form["hours"].items()
            },
            counts=form["counts"],
            watermark=Watermark.of_json(form["watermark"]),
            observed=hour_counts_from_json(form["observed"]),
            done=form["done"],
        )


class BatchRecords:
    """The records of one stream, in ``directory``."""

    def __init__(self, storage: Storage, directory: str) -> None:
        self._storage = storage
        self._directory = directory

    def plan(self, batch: int) -> BatchPlan | None:
        """Return the plan of ``batch``; None before it is planned."""
        return self._read(batch, "plan", BatchPlan.of_json)

    def staged(self, batch: int) -> StagedBatch | None:
        """Return the staged record of ``batch``; None before its files are staged."""
        return self._read(batch, "staged", StagedBatch.of_json)

    def save_plan(self, plan: BatchPlan) -> None:
        """Record the plan."""
        self._write(plan.batch, "plan", plan.to_json())

    def save_staged(self, staged: StagedBatch) -> None:
        """Record the staged files, which fixes the result of the batch."""
        self._write(staged.batch, "staged", staged.to_json())

    def finish(self, staged: StagedBatch) -> StagedBatch:
        """Record the end of the batch, and delete the records of old batches."""
        finished = replace(staged, done=True)
        self.save_staged(finished)
        if staged.batch >= KEPT:
            for kind in ("plan", "staged"):
                self._storage.remove(self._path(staged.batch - KEPT, kind))
        return finished

    def last(self) -> StagedBatch | None:
        """Return the newest staged batch; None before the first."""
        numbers = [
            int(entry.name.partition(".")[0])
            for entry in self._storage.list(self._directory)
            if entry.name.endswith(".staged.json") and entry.name[0].isdigit()
        ]
        return self.staged(max(numbers)) if numbers else None

    def _path(self, batch: int, kind: str) -> str:
        return f"{self._directory}/{batch:012d}.{kind}.json"

    def _read(self, batch: int, kind: str, of_json: Callable[[Mapping[str, Any]], Record]) -> Record | None:
        text = self._storage.read(self._path(batch, kind))
        if text is None:
            return None
        try:
            return of_json(json.loads(text))
        except (ValueError, KeyError, TypeError) as broken:
            raise StateCorrupt(
                "the record of a batch is corrupt", path=self._path(batch, kind), reason=str(broken)[:200]
            ) from broken

    def _write(self, batch: int, kind: str, form: Mapping[str, object]) -> None:
        self._storage.write(self._path(batch, kind), json.dumps(form, separators=(",", ":")))


def have_same_columns(one: Layout, other: Layout) -> bool:
    """Whether both layouts have the same keys, names and types in the same slots, and so the same files."""
    return [(slot.key, slot.name, slot.type, slot.state) for slot in one.slots] == [
        (slot.key, slot.name, slot.type, slot.state) for slot in other.slots
    ]


def encode_layout(layout: Layout) -> dict[str, object]:
    """Return a layout for a JSON file, in the same form as in the table."""
    return {
        "columns": [list(column) for column in encode_columns(layout)],
        "parameters": encode_parameters(layout),
    }


def decode_layout(form: Mapping[str, Any]) -> Layout:
    """Return the layout that ``encode_layout`` encoded. Raises FlatTableAltered if modified."""
    return parse_layout([tuple(column) for column in form["columns"]], form["parameters"])


FINE_HOURS: Final = 48
"""Older hours become days."""


class HourCountsFile:
    """The file with the hour counts of one stream."""

    def __init__(self, storage: Storage, path: str, retention_s: int) -> None:
        self._storage = storage
        self._path = path
        self._retention_s = retention_s

    def load(self) -> HourCounts:
        """Return the counts; empty without a file. Raises StateCorrupt if the file is corrupt; removing the
        file resets them.
        """
        text = self._storage.read(self._path)
        if text is None:
            return HourCounts()
        return hour_counts_from_json(text)

    def save(self, counts: HourCounts, now_hour: int) -> HourCounts:
        """Write the counts, except those of hours that are older than the retention, and return them."""
        retained = counts.since(now_hour - self._retention_s).merge_days_before(
            now_hour - FINE_HOURS * HOUR_S
        )
        self._storage.write(self._path, hour_counts_to_json(retained))
        return retained
