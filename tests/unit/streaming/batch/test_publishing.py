from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from state.columns.changes import Change, ChangeKind, Evolution, RetainedValues
from state.columns.counts.observations import DAY_S, HourCounts, KeyCounts, Observations
from state.columns.counts.promotion import MisfitCounts
from state.columns.paths import KeyPath
from state.columns.rules import FlatRules
from state.columns.slot_codec import format_hour
from state.columns.types import ColumnType, Evidence
from streaming.batch.key_demand import RequestedKeys
from streaming.batch.records import HourDelta, Move, StagedBatch
from streaming.batch.schema_evolution import announce_promotions, begin_promotion, propose
from streaming.batch.staged_files import BatchPublisher
from streaming.batch.watermark import Watermark
from streaming.settings import Sealing
from streaming.split.file_columns import promoting_slots, textual_slots
from streaming.split.pushdown_guard import stored_chunks
from streaming.table.parameters import ANNOUNCED, LAST_PROMOTION, LAYOUT_VERSION, SEALED, TOUCHED, VALUES
from streaming.table.partition_cache import CachedTable
from streaming.table.value_counts import parse_counts
from streaming.upkeep.maintenance import find_due, find_outgrown
from streaming.upkeep.type_changes import advance_promotion, find_pending
from tests.builders.flat.layouts import HOUR, a_layout
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import a_flat_table


HOUR_S = 3_600
LAYOUT = a_layout({"n": ColumnType.INT})


@pytest.fixture
def table(tmp_path: Path) -> CachedTable:
    held = CachedTable(a_flat_table(tmp_path / "table", LAYOUT))
    held.read()
    return held


@pytest.fixture
def publisher(table: CachedTable) -> BatchPublisher:
    return BatchPublisher(table, LocalStorage(), "q")


def a_batch(publisher: BatchPublisher, tmp_path: Path, batch: int, hours: dict[int, int]) -> StagedBatch:
    """A staged batch with a file of this many rows for each hour."""
    stage = tmp_path / f"stage-{batch}"
    moves = []
    for n, hour in enumerate(hours):
        stage.mkdir(exist_ok=True)
        (stage / f"{hour}.orc").write_text(f"{hours[hour]} rows of batch {batch}")
        target = f"{publisher.hour(hour).location}/b-q-{batch}-{n}.orc"
        moves.append(Move(str(stage / f"{hour}.orc"), target))
    reached = Watermark().advance({0: max(hours)}, 0, 600)
    counts = {hour: HourDelta(rows, (0, rows), 10 * rows) for hour, rows in hours.items()}
    return StagedBatch(batch, "", str(stage), tuple(moves), counts, {}, reached)


def test_a_batch_is_published_once_however_often_it_is_repeated(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    staged = a_batch(publisher, tmp_path, 0, {HOUR: 3, HOUR + HOUR_S: 4})
    for _ in range(3):
        publisher.publish(staged)
    publisher.publish(a_batch(publisher, tmp_path, 1, {HOUR: 5}))
    first, second = table.partitions()
    assert first.parameters["tideline.rows"] == "8"
    assert parse_counts(first.parameters[VALUES]) == (0, 8)
    assert first.parameters["tideline.raw_bytes"] == "80"
    assert second.parameters["tideline.rows"] == "4"
    place = first.location.path
    assert sorted(path.name for path in Path(place).iterdir()) == ["b-q-0-0.orc", "b-q-1-0.orc"]
    assert not (tmp_path / "stage-0").exists()


def test_a_batch_interrupted_between_moves_is_resumed(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    staged = a_batch(publisher, tmp_path, 0, {HOUR: 3, HOUR + HOUR_S: 4})
    LocalStorage().move(staged.moves[0].source, staged.moves[0].target)
    publisher.publish(staged)
    assert [each.parameters["tideline.rows"] for each in table.partitions()] == ["3", "4"]


def test_a_dropped_hour_that_returns_uses_a_new_directory(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    publisher.publish(a_batch(publisher, tmp_path, 0, {HOUR: 3}))
    table.drop_hours([HOUR])
    assert publisher.hour(HOUR).location.name == "v2"


def test_an_hour_is_due_when_the_watermark_has_passed_its_end_and_its_last_rows(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    publisher.publish(a_batch(publisher, tmp_path, 0, {HOUR: 3}))
    end = HOUR + HOUR_S
    assert find_due(table.partitions(), None, 60) == []
    assert find_due(table.partitions(), end + 59, 60) == []
    assert len(find_due(table.partitions(), end + 60, 60)) == 1
    table.set_hour_parameters(HOUR, {TOUCHED: str(end + 500)})
    assert find_due(table.partitions(), end + 559, 60) == []
    table.set_hour_parameters(HOUR, {SEALED: "true"})
    assert find_due(table.partitions(), end + 10_000, 60) == []


def test_hours_with_rescued_rows_sealed_before_a_promotion_are_rewritten(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    publisher.publish(a_batch(publisher, tmp_path, 0, {HOUR: 3}))
    state = table.alter(table.read(), parameters={LAST_PROMOTION: "9"})
    table.set_hour_parameters(HOUR, {SEALED: "true", VALUES: "2,1"})
    assert [each.hour for each in find_outgrown(table.partitions(), state)] == [HOUR]
    table.set_hour_parameters(HOUR, {VALUES: "0,3"})
    assert find_outgrown(table.partitions(), state) == []
    table.set_hour_parameters(HOUR, {VALUES: "2,1", LAYOUT_VERSION: "9"})
    assert find_outgrown(table.partitions(), state) == []


def test_hours_written_before_a_promotion_began_are_pending(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    publisher.publish(a_batch(publisher, tmp_path, 0, {HOUR: 3}))
    state = table.read()
    assert find_pending(state, table.partitions()) == []
    harden = Change(ChangeKind.PROMOTE, "misfits", index=1, type=ColumnType.STRING)
    state = begin_promotion(table, state, Evolution(state.layout, (harden,)))
    publisher.publish(a_batch(publisher, tmp_path, 1, {HOUR + HOUR_S: 3}))
    assert [each.hour for each in find_pending(state, table.partitions())] == [HOUR]
    assert begin_promotion(table, state, Evolution(state.layout, (harden,))) == state


def test_the_partition_cache_is_dropped_when_another_writer_changed_the_table(
    publisher: BatchPublisher, table: CachedTable, tmp_path: Path
) -> None:
    publisher.publish(a_batch(publisher, tmp_path, 0, {HOUR: 3}))
    other = CachedTable(table._inner)
    other.set_hour_parameters(HOUR, {SEALED: "true"})
    assert table.partitions()[0].parameters.get(SEALED) is None
    state = other.read()
    other.alter(state, replace(state.layout, version=state.version + 1))
    table.read()
    assert table.partitions()[0].parameters[SEALED] == "true"


def test_files_are_marked_until_queries_planned_before_the_change_of_type_have_ended(
    table: CachedTable,
) -> None:
    now_s = 1_000.0
    rewriter: Any = SimpleNamespace(
        table=table,
        lease=SimpleNamespace(hold=table.read),
        clock=lambda: now_s,
        settings=SimpleNamespace(sealing=Sealing(old_files_s=60)),
    )
    promote = Change(ChangeKind.PROMOTE, "misfits", index=1, type=ColumnType.STRING)
    state = begin_promotion(table, table.read(), Evolution(table.read().layout, (promote,)))
    assert promoting_slots(state) == textual_slots(state) == {1}
    state, left = advance_promotion(rewriter, state, hours_max=1)
    assert (left, state.layout.slots[1].type) == (0, ColumnType.STRING)
    assert not promoting_slots(state)
    assert textual_slots(state) == {1}
    now_s = 1_059.0
    assert textual_slots(advance_promotion(rewriter, state, hours_max=1)[0]) == {1}
    now_s = 1_060.0
    assert textual_slots(advance_promotion(rewriter, state, hours_max=1)[0]) == set()


def test_a_footer_of_several_chunks_is_stored_with_a_header_for_each() -> None:
    assert stored_chunks(b"abcde", 2) == b"\x05\x00\x00ab\x05\x00\x00cd\x03\x00\x00e"
    assert stored_chunks(b"", 2) == b""


def a_proposal(table: CachedTable) -> Evolution:
    change = Change(ChangeKind.PROMOTE, "misfits", LAYOUT.slots[1].key, 1, ColumnType.STRING)
    return Evolution(table.read().layout, (change,))


def test_a_promotion_is_announced_for_its_delay_before_it_begins(table: CachedTable) -> None:
    rules, proposal = FlatRules(promotion_delay_hours=2), a_proposal(table)
    state = announce_promotions(table, table.read(), proposal, rules, 1_000)
    assert promoting_slots(state) == set()
    assert state.parameters[ANNOUNCED] == '{"1": 1000}'
    assert announce_promotions(table, state, proposal, rules, 1_000 + 2 * HOUR_S - 1) == state
    state = announce_promotions(table, state, proposal, rules, 1_000 + 2 * HOUR_S)
    assert promoting_slots(state) == {1}
    assert ANNOUNCED not in state.parameters
    assert announce_promotions(table, state, proposal, rules, 9_000_000) == state


def test_an_announcement_is_discarded_when_the_promotion_is_no_longer_proposed(table: CachedTable) -> None:
    rules, proposal = FlatRules(promotion_delay_hours=2), a_proposal(table)
    state = announce_promotions(table, table.read(), proposal, rules, 1_000)
    state = announce_promotions(table, state, Evolution(state.layout, ()), rules, 2_000)
    assert ANNOUNCED not in state.parameters
    state = announce_promotions(table, state, proposal, rules, 1_000 + 3 * HOUR_S)
    assert promoting_slots(state) == set()


def test_a_promotion_by_a_pin_is_not_delayed(table: CachedTable) -> None:
    key = LAYOUT.slots[1].key
    assert key is not None
    rules = FlatRules(pins={key: ColumnType.STRING})
    assert promoting_slots(announce_promotions(table, table.read(), a_proposal(table), rules, 1_000)) == {1}


def test_the_plan_shows_the_evidence_of_a_promotion_and_when_it_begins(table: CachedTable) -> None:
    key = LAYOUT.slots[1].key
    assert key is not None
    seen = KeyCounts(200, 100, 100, Evidence(0, 9, has_text=True), MisfitCounts(others=100))
    counts = HourCounts({HOUR: Observations(200, 0, {key: seen})})
    held = RetainedValues.of([{1: 5}])

    def reason(*, pins: dict[KeyPath, ColumnType] | None = None) -> str:
        requested = RequestedKeys((), FlatRules(whitelist=frozenset({key}), pins=pins or {}))
        found = propose(table.read(), requested, counts, held, HOUR).evolution
        return "".join(change.reason for change in found.of(ChangeKind.PROMOTE))

    hour = format_hour(HOUR)
    evidence = "100 of 200 values (50.0000%) do not fit int: 100 not numeric, in at least 1 hour"
    assert reason() == (
        f"{evidence} from {hour} to {hour}; begins 24 hours after the next batch, unless the key is pinned "
        "to int"
    )
    state = announce_promotions(table, table.read(), a_proposal(table), FlatRules(), 0)
    assert reason().endswith("; begins at 1970-01-02 00:00 UTC, unless the key is pinned to int")
    assert not reason(pins={key: ColumnType.INT})
    assert reason(pins={key: ColumnType.STRING}) == "pinned to string; begins with the next batch"
    announce_promotions(table, state, a_proposal(table), FlatRules(), DAY_S)
    assert reason().endswith("; in progress")
