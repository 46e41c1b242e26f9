"""The time that is left until a reader loses an event, against a naive model of places that remove events one
by one."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.event_log.retention import (
    NEVER,
    Margin,
    TopicLimits,
    find_margin,
    log_kept_s,
    next_event_time_s,
    parse_duration,
)


TIMES = st.integers(min_value=0, max_value=10_000)
RETENTIONS = st.integers(min_value=0, max_value=10_000)


@pytest.mark.parametrize(
    ("text", "unit", "seconds"),
    [
        ("1d", "s", 86_400),
        ("240h", "h", 864_000),
        ("10", "h", 36_000),
        (" 86400 ", "s", 86_400),
        ("86400s", "s", 86_400),
        ("90 MIN", "s", 5_400),
        ("1500ms", "s", 1.5),
        ("2days", "h", 172_800),
    ],
)
def test_durations_of_hive_are_read_in_all_their_units(text: str, unit: str, seconds: float) -> None:
    assert parse_duration(text, unit) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "1x", "-1d", "1.5d", "<unset>"])
def test_a_text_that_is_no_duration_is_unknown(text: str) -> None:
    assert parse_duration(text, "s") is None


@given(next_s=TIMES, kept_s=st.lists(RETENTIONS, min_size=1), now_s=TIMES)
def test_the_time_left_is_how_long_some_place_still_has_the_event(
    next_s: int, kept_s: list[int], now_s: int
) -> None:
    """The model: second by second, until every place has removed the event."""
    at = now_s
    while at < now_s + 10_000 and any(at < next_s + kept for kept in kept_s):
        at += 1
    left = min(at - now_s, max(kept_s))
    assert find_margin(next_s, kept_s, now_s).left_s == min(left, 10_000)


@given(kept_s=st.lists(RETENTIONS, min_size=1), now_s=TIMES)
def test_a_reader_that_has_read_everything_has_the_whole_retention_left(
    kept_s: list[int], now_s: int
) -> None:
    assert find_margin(None, kept_s, now_s) == Margin(max(kept_s), max(kept_s))
    assert not find_margin(None, kept_s, now_s).is_short


@given(next_s=TIMES, kept_s=st.lists(RETENTIONS, min_size=1), now_s=TIMES, later_s=TIMES)
def test_the_time_left_never_grows_while_the_reader_stands_still(
    next_s: int, kept_s: list[int], now_s: int, later_s: int
) -> None:
    before, after = (find_margin(next_s, kept_s, at) for at in (now_s, now_s + later_s))
    assert after.left_s <= before.left_s
    assert before.left_s - after.left_s <= later_s
    assert after.is_short or not before.is_short
    assert not after.is_critical or after.is_short or after.retention_s == 0


@given(next_s=TIMES, now_s=TIMES)
def test_a_place_without_limit_never_loses_the_event(next_s: int, now_s: int) -> None:
    for kept in ([], [NEVER], [5.0, NEVER]):
        margin = find_margin(next_s, kept, now_s)
        assert margin.left_s == NEVER
        assert not margin.is_short
        assert not margin.is_critical


def test_less_than_half_the_retention_is_short_and_less_than_a_tenth_is_critical() -> None:
    assert not find_margin(0, [100.0], 50).is_short
    assert find_margin(0, [100.0], 51).is_short
    assert not find_margin(0, [100.0], 90).is_critical
    assert find_margin(0, [100.0], 91).is_critical


@given(retention_s=RETENTIONS, oldest_s=TIMES, now_s=TIMES)
def test_a_topic_that_limits_bytes_keeps_what_its_oldest_record_shows(
    retention_s: int, oldest_s: int, now_s: int
) -> None:
    age_s = max(0, now_s - oldest_s)
    assert TopicLimits(retention_s, limits_bytes=True, oldest_time_s=oldest_s, has_deleted=True).kept_s(
        now_s
    ) == min(retention_s, age_s)
    whole = TopicLimits(retention_s, limits_bytes=True, oldest_time_s=oldest_s)
    assert whole.kept_s(now_s) == retention_s, "nothing was deleted yet, so the age shows nothing"
    assert TopicLimits(retention_s, oldest_time_s=oldest_s, has_deleted=True).kept_s(now_s) == retention_s


def test_a_log_of_unknown_time_to_live_keeps_as_much_as_it_has_if_it_was_cleaned_before() -> None:
    assert log_kept_s(60.0, 5, 10.0, 100.0) == 60
    assert log_kept_s(None, 5, 10.0, 100.0) == 90
    assert log_kept_s(None, 1, 10.0, 100.0) == math.inf
    assert log_kept_s(None, None, None, 100.0) == math.inf


def test_the_time_of_the_next_event_is_read_or_bounded_from_below() -> None:
    assert next_event_time_s(7.0, 50.0, [1.0], 100.0) == 7
    assert next_event_time_s(None, 50.0, [1.0], 100.0) == 50
    assert next_event_time_s(None, None, [None, 3.0, 1.0], 100.0) == 1
    assert next_event_time_s(None, None, [None], 100.0) == 100
