"""Which hours are dropped."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from handlers.files.paths import parse_location
from streaming.table.hours import HOUR_S
from streaming.table.retention import DISTANCE_MAX_S, Deletions, RetentionRules, drop_hours, find_expired
from tests.builders.flat.layouts import HOUR, a_layout
from tests.builders.flat.local_storage import LocalStorage
from tests.builders.flat.memory_catalog import a_flat_table, an_hour_with_files


DAY = RetentionRules(keep_s=86_400)
TEN_DAYS = [HOUR - n * HOUR_S for n in range(240)]
NOW = HOUR + HOUR_S


def test_hours_older_than_the_window_are_dropped_oldest_first_and_not_all_at_once() -> None:
    found = find_expired(TEN_DAYS, [HOUR], NOW, DAY)
    assert found.hours == tuple(sorted(TEN_DAYS)[:48])
    assert found.left == 240 - 25 - 48


def test_a_stopped_stream_drops_nothing_more() -> None:
    kept = [hour for hour in TEN_DAYS if hour + DAY.keep_s >= HOUR]
    assert find_expired(kept, [HOUR], NOW + DISTANCE_MAX_S, DAY).hours == ()


def test_a_wrong_clock_drops_nothing() -> None:
    for now_s in (0, NOW - DISTANCE_MAX_S - 1, NOW + DISTANCE_MAX_S + 1, 10**12):
        found = find_expired(TEN_DAYS, [HOUR], now_s, DAY)
        assert found.hours == ()
        assert found.refused


def test_one_wrong_event_time_drops_nothing() -> None:
    wild = HOUR + 400 * 86_400
    assert find_expired([*TEN_DAYS, wild], [HOUR, wild], NOW, DAY).refused


def test_hours_that_are_not_sealed_do_not_make_others_old() -> None:
    assert find_expired([*TEN_DAYS, HOUR + DISTANCE_MAX_S], [min(TEN_DAYS)], min(TEN_DAYS), DAY).hours == ()


def test_without_a_sealed_hour_or_without_a_window_nothing_is_dropped() -> None:
    assert find_expired(TEN_DAYS, [], NOW, DAY).refused == "no hour is sealed yet"
    assert find_expired(TEN_DAYS, [HOUR], NOW, RetentionRules(keep_s=0)).hours == ()


@given(
    hours=st.sets(st.integers(0, 2_000).map(lambda n: n * HOUR_S)),
    data=st.data(),
    now_s=st.integers(0, 4_000 * HOUR_S),
    keep_s=st.integers(0, 500 * HOUR_S),
)
def test_no_hour_within_the_window_is_ever_dropped(
    hours: set[int], data: st.DataObject, now_s: int, keep_s: int
) -> None:
    sealed = data.draw(st.sets(st.sampled_from(sorted(hours)))) if hours else set()
    rules = RetentionRules(keep_s)
    found = find_expired(hours, sealed, now_s, rules)
    assert len(found.hours) <= rules.hours_max
    assert set(found.hours) <= hours
    for hour in found.hours:
        assert hour < max(sealed) - keep_s
        assert abs(now_s - max(sealed) - HOUR_S) <= rules.distance_max_s
        assert not found.refused


def test_files_of_dropped_hours_are_deleted_later(tmp_path: Path) -> None:
    table = a_flat_table(tmp_path, a_layout({}))
    place = an_hour_with_files(table, HOUR, "a.orc")
    table.add_hour(HOUR)
    deletions = Deletions(parse_location(str(tmp_path / "flat")), LocalStorage())
    assert drop_hours(table, table.partitions(), deletions, due_s=100) == [HOUR]
    assert table.hours() == []
    assert deletions.sweep(table, now_s=99).waiting == 1
    assert Path(place.path, "a.orc").exists()
    assert deletions.sweep(table, now_s=100).deleted == [place]
    assert not Path(place.path).parent.exists()
