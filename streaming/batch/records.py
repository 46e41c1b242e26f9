"""What a batch is about to do and what it has done, on record before it is done: the reason why it happens once.

Spark runs a batch again with the same rows until it has noted the batch as committed. Beside Spark's own notes in the checkpoint
lie two records for every batch, ``tideline/batches/<id>.plan.json`` and ``.staged.json``, each written whole or not at all:

* the *plan* comes before anything else: slots, types, the watermark and the clock. A batch that runs again takes every row the
  same way, even if people's questions, the clock or the table's types are others by then.
* the *staged* record comes when all files of the batch lie in the staging directory, and lists every move to a place in the
  table. From then on the batch is decided: whoever comes next only carries on with the moves, and never reads the source again.

A batch whose moves are done has its ``done`` flag set in the staged record, and replays of it change nothing. So files of the
table belong to decided batches only, and a compaction can never meet half of one.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from state.columns.observations import HourCounts, hour_counts_from_json, hour_counts_to_json
from state.columns.slot_codec import encode_columns, encode_parameters, parse_layout
from state.columns.slots import HOUR_S
from state.errors import StateCorrupt
from streaming.batch.watermark import Watermark


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from state.columns.slots import Layout
    from streaming.table.storage import Storage


Record = TypeVar("Record")
KEPT: Final = 100
"""Records of so many batches stay, for people who look for what happened."""


@dataclass(frozen=True, slots=True)
class BatchPlan:
    """How a batch takes its rows apart and where they go."""

    batch: int
    layout: Layout
    watermark: Watermark
    """Before this batch."""
    now_s: int
    textual: frozenset[int] = frozenset()
    """Slots on their way to STRING: their files hold texts already (``streaming.upkeep.promotion``)."""
    sampled: HourCounts = field(default_factory=HourCounts)
    """What a sample of the batch held of keys without a column."""

    def to_json(self) -> dict[str, object]:
        """Return a form for a JSON file."""
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
        """Read what ``to_json`` made."""
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
    """One file from the staging directory to its place."""

    source: str
    target: str


@dataclass(frozen=True, slots=True)
class HourDelta:
    """What a batch brings to an hour."""

    rows: int
    nonnull: tuple[int, ...]
    """Values by slot."""
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class StagedBatch:
    """A decided batch."""

    batch: int
    origin: str
    """Which rows it was made from: the source's offsets as Spark noted them."""
    directory: str
    moves: tuple[Move, ...]
    hours: Mapping[int, HourDelta]
    counts: Mapping[str, int]
    """Rows by what became of them, bytes of JSON, and misfits."""
    watermark: Watermark
    """After this batch."""
    observed: HourCounts = field(default_factory=HourCounts)
    """What was seen of the keys, by hour."""
    done: bool = False

    def to_json(self) -> dict[str, object]:
        """Return a form for a JSON file."""
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
        """Read what ``to_json`` made."""
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
        """Return the plan of ``batch``; None before it was planned."""
        return self._read(batch, "plan", BatchPlan.of_json)

    def staged(self, batch: int) -> StagedBatch | None:
        """Return the staged record of ``batch``; None before it was decided."""
        return self._read(batch, "staged", StagedBatch.of_json)

    def save_plan(self, plan: BatchPlan) -> None:
        """Note the plan."""
        self._write(plan.batch, "plan", plan.to_json())

    def save_staged(self, staged: StagedBatch) -> None:
        """Decide the batch."""
        self._write(staged.batch, "staged", staged.to_json())

    def finish(self, staged: StagedBatch) -> StagedBatch:
        """Note that all moves are done, and forget batches of long ago."""
        done = replace(staged, done=True)
        self.save_staged(done)
        if staged.batch >= KEPT:
            for kind in ("plan", "staged"):
                self._storage.remove(self._path(staged.batch - KEPT, kind))
        return done

    def last(self) -> StagedBatch | None:
        """Return the newest decided batch; None before the first."""
        numbers = [
            int(found.name.partition(".")[0])
            for found in self._storage.list(self._directory)
            if found.name.endswith(".staged.json") and found.name[0].isdigit()
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
                "the record of a batch cannot be read", path=self._path(batch, kind), reason=str(broken)[:200]
            ) from broken

    def _write(self, batch: int, kind: str, form: Mapping[str, object]) -> None:
        self._storage.write(self._path(batch, kind), json.dumps(form, separators=(",", ":")))


def have_same_columns(one: Layout, other: Layout) -> bool:
    """Whether files written by one layout are files of the other: same keys, names and types in the same slots."""
    return [(slot.key, slot.name, slot.type, slot.state) for slot in one.slots] == [
        (slot.key, slot.name, slot.type, slot.state) for slot in other.slots
    ]


def encode_layout(layout: Layout) -> dict[str, object]:
    """Return a layout for a JSON file, in the form in which the table itself holds it."""
    return {
        "columns": [list(column) for column in encode_columns(layout)],
        "parameters": encode_parameters(layout),
    }


def decode_layout(form: Mapping[str, Any]) -> Layout:
    """Read what ``encode_layout`` made; TableAltered where it was changed."""
    return parse_layout([tuple(column) for column in form["columns"]], form["parameters"])


FINE_HOURS: Final = 48
"""Older hours are kept by the day."""


class HourCountsFile:
    """The file of one stream's book."""

    def __init__(self, storage: Storage, path: str, retention_s: int) -> None:
        self._storage = storage
        self._path = path
        self._retention_s = retention_s

    def load(self) -> HourCounts:
        """Return the book, an empty one at first. StateCorrupt where it cannot be read: moving it away begins a new one."""
        text = self._storage.read(self._path)
        if text is None:
            return HourCounts()
        return hour_counts_from_json(text)

    def save(self, book: HourCounts, now_hour: int) -> HourCounts:
        """Write the book without what is older than partitions are kept, and return it."""
        kept = book.since(now_hour - self._retention_s).merge_days_before(now_hour - FINE_HOURS * HOUR_S)
        self._storage.write(self._path, hour_counts_to_json(kept))
        return kept
