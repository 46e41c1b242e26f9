"""Update periods: Lens' names and formats, strict reading, and correct calendar arithmetic, also where Lens
is wrong."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import BadInput, BadPartitionValue
from state.timelines.calendar_units import TIME_END_S, TIME_START_S
from state.timelines.periods import UpdatePeriod, detect_period, sort_longest_first
from state.timelines.time_ranges import PartitionRange, TimePartition, TimeRange


P = UpdatePeriod
LENS_ORDER = [
    P.SECONDLY,
    P.MINUTELY,
    P.HOURLY,
    P.DAILY,
    P.WEEKLY,
    P.MONTHLY,
    P.QUARTERLY,
    P.YEARLY,
    P.CONTINUOUS,
]
moments = st.integers(TIME_START_S + 14 * 86_400, TIME_END_S - 14 * 86_400)


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


def test_rank_is_the_order_of_the_enum_in_lens_and_weight_the_order_of_length() -> None:
    assert sorted(LENS_ORDER, key=lambda period: period.rank) == LENS_ORDER
    assert sort_longest_first(LENS_ORDER)[0] is P.YEARLY
    assert sort_longest_first(LENS_ORDER)[-1] is P.CONTINUOUS


def test_iso_weeks_keep_the_name_of_lens() -> None:
    assert P.from_lens_name("weekly", iso_weeks=True) is P.WEEKLY_ISO
    assert P.from_lens_name(" daily ") is P.DAILY
    assert P.WEEKLY_ISO.lens_name == P.WEEKLY.lens_name == "WEEKLY"
    with pytest.raises(BadInput, match="FORTNIGHTLY"):
        P.from_lens_name("FORTNIGHTLY")


@pytest.mark.parametrize("period", P)
@given(moment_s=moments)
def test_a_partition_holds_its_moments_and_its_text_reads_back(period: UpdatePeriod, moment_s: int) -> None:
    ordinal = period.floor(moment_s)
    assert period.start_s(ordinal) <= moment_s < period.start_s(ordinal + 1)
    assert period.parse(period.format(ordinal)) == ordinal
    assert len(period.format(ordinal)) == period.text_length
    ceiling = period.ceil(moment_s)
    assert period.start_s(ceiling - 1) < moment_s <= period.start_s(ceiling)


@pytest.mark.parametrize("period", P)
@given(text=st.one_of(st.text(max_size=20), st.from_regex(r"\A[0-9W-]{4,19}\Z")))
def test_a_text_is_a_value_only_if_formatting_it_again_gives_the_same_text(
    period: UpdatePeriod, text: str
) -> None:
    with suppress(BadPartitionValue):
        assert period.format(period.parse(text)) == text


@pytest.mark.parametrize(
    ("period", "text"),
    [
        (P.DAILY, "2015-02-31"),
        (P.DAILY, "2015-2-01"),
        (P.DAILY, "2015-W01-1"),
        (P.DAILY, "0000-01-01"),
        (P.DAILY, "٢٠١٥-01-01"),
        (P.HOURLY, "2015-01-01-24"),
        (P.HOURLY, "2015-01-01 05"),
        (P.MONTHLY, "2015-13"),
        (P.MONTHLY, "2015-1x"),
        (P.YEARLY, "15aa"),
        (P.WEEKLY, "2015-W60"),
        (P.WEEKLY, "2015-W00"),
        (P.WEEKLY, "2015-W53"),
        (P.WEEKLY_ISO, "2014-W53"),
        (P.WEEKLY, "9999-W53"),
        (P.QUARTERLY, "2015-02"),
        (P.SECONDLY, "2015-01-01-00-00-60"),
        (P.DAILY, ""),
        (P.DAILY, "__HIVE_DEFAULT_PARTITION__"),
        (P.DAILY, "latest"),
    ],
)
def test_texts_that_lens_reads_leniently_are_refused(period: UpdatePeriod, text: str) -> None:
    with pytest.raises(BadPartitionValue) as refused:
        period.parse(text)
    assert refused.value.context == {"value": text, "period": period.lens_name}


@pytest.mark.parametrize(
    ("period", "day", "week"),
    [
        (P.WEEKLY, "2014-12-28", "2015-W01"),
        (P.WEEKLY, "2015-01-03", "2015-W01"),
        (P.WEEKLY, "2015-01-04", "2015-W02"),
        (P.WEEKLY, "2015-12-27", "2016-W01"),
        (P.WEEKLY, "2020-12-31", "2021-W01"),
        (P.WEEKLY_ISO, "2014-12-28", "2014-W52"),
        (P.WEEKLY_ISO, "2015-12-28", "2015-W53"),
        (P.WEEKLY_ISO, "2021-01-01", "2020-W53"),
    ],
)
def test_weeks_at_the_turn_of_the_year(period: UpdatePeriod, day: str, week: str) -> None:
    assert period.format(period.floor(at(day))) == week


@given(moment_s=moments)
def test_iso_weeks_agree_with_the_standard_library(moment_s: int) -> None:
    year, week, _ = datetime.fromtimestamp(moment_s, UTC).isocalendar()
    assert P.WEEKLY_ISO.format(P.WEEKLY_ISO.floor(moment_s)) == f"{year:04d}-W{week:02d}"


def test_every_period_works_up_to_both_ends_of_time() -> None:
    for period in P:
        span = TimeRange(TIME_START_S, TIME_END_S)
        first, last = period.ceil(span.start_s), period.floor(span.end_s) - 1
        assert period.parse(period.format(first)) == first
        assert period.parse(period.format(last)) == last
        assert period.start_s(last + 1) <= TIME_END_S


@pytest.mark.parametrize(
    ("period", "expected"),
    [
        (P.YEARLY, "2016"),
        (P.QUARTERLY, "2016-01"),
        (P.MONTHLY, "2016-01"),
        (P.WEEKLY, "2016-W01"),
        (P.DAILY, "2015-12-27"),
        (P.HOURLY, "2015-12-26-07"),
        (P.MINUTELY, "2015-12-26-06-31"),
        (P.SECONDLY, "2015-12-26-06-30-16"),
    ],
)
def test_ceilings_of_a_saturday_morning(period: UpdatePeriod, expected: str) -> None:
    # 06:30:15.040: partitions begin on whole seconds, so the ceiling is that of the next whole second
    assert period.format(period.ceil(at("2015-12-26T06:30:16"))) == expected


def test_floors_where_lens_is_wrong() -> None:
    assert P.WEEKLY.start_s(P.WEEKLY.floor(at("2015-01-01"))) == at("2014-12-28")
    assert P.WEEKLY.ceil(at("2015-01-04T06:00:00")) == P.WEEKLY.floor(at("2015-01-11")), (
        "hours count for a week's ceiling"
    )
    assert P.QUARTERLY.format(P.QUARTERLY.ceil(at("2015-02-01"))) == "2015-04"
    assert P.QUARTERLY.format(P.QUARTERLY.floor(at("2015-09-01"))) == "2015-07"


def test_a_value_is_detected_by_its_length_and_form_among_the_allowed_periods() -> None:
    assert detect_period("2015-01", [P.DAILY, P.MONTHLY]) is P.MONTHLY
    assert detect_period("2015-01", [P.QUARTERLY, P.MONTHLY]) is P.QUARTERLY
    assert detect_period("2015-02", [P.QUARTERLY, P.MONTHLY]) is P.MONTHLY
    assert detect_period("2015-02", [P.QUARTERLY]) is None
    assert detect_period("latest", P) is None


@pytest.mark.parametrize("period", P)
def test_ten_partitions_from_now(period: UpdatePeriod) -> None:
    now = TimePartition(period, period.floor(at("2024-06-30T12:00:00")))
    later = TimePartition(period, now.ordinal + 10)
    ten = PartitionRange(period, now.ordinal, later.ordinal)
    assert len(ten) == len(list(ten)) == 10
    assert now in ten
    assert later not in ten
    assert TimePartition(period, later.ordinal - 1) in ten
    assert ten.start_s == now.start_s
    assert ten.end_s == later.start_s
    assert PartitionRange.parse(period, str(ten)) == ten


def test_a_range_does_not_end_before_it_begins() -> None:
    with pytest.raises(BadInput):
        PartitionRange(P.DAILY, 2, 1)
    hour = TimePartition.parse(P.HOURLY, "2015-01-01-00")
    assert hour not in PartitionRange(P.DAILY, hour.ordinal, hour.ordinal + 1)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("2015-01-01,2015-01-04", "[2015-01-01, 2015-01-04)"),
        ("[2015-01-01, 2015-01-04)", "[2015-01-01, 2015-01-04)"),
        ("[2015-01-01,2015-01-04]", "[2015-01-01, 2015-01-05)"),
        ("(2015-01-01,2015-01-04)", "[2015-01-02, 2015-01-04)"),
        ("(2015-01-01 , 2015-01-04]", "[2015-01-02, 2015-01-05)"),
        ("[2015-01-01,2015-01-01)", "[2015-01-01, 2015-01-01)"),
    ],
)
def test_a_range_is_read_with_either_kind_of_bracket(text: str, printed: str) -> None:
    assert str(PartitionRange.parse(P.DAILY, text)) == printed


@pytest.mark.parametrize(
    "text", ["2015-01-01", "2015-01-01,2015-01-02,2015-01-03", "[,]", "{2015-01-01,2015-01-02}"]
)
def test_other_texts_are_not_ranges(text: str) -> None:
    with pytest.raises(BadInput):
        PartitionRange.parse(P.DAILY, text)


def test_a_time_range_is_read_from_partition_values_and_moments() -> None:
    assert TimeRange.parse("2015-01-29-06", "2015-03-01T06:00:00Z") == TimeRange(
        at("2015-01-29T06:00:00"), at("2015-03-01T06:00:00")
    )
    assert TimeRange.parse("2015", "2015-02") == TimeRange.parse("2015-01-01T02:00:00+02:00", "2015-02-01")
    assert str(TimeRange.parse("2015", "2015-02-01-06-30")) == "[2015-01-01-00-00, 2015-02-01-06-30)"


@pytest.mark.parametrize(
    ("start", "end"), [("2015", "2014"), ("tomorrow", "2015"), ("2015", "2015-01-01T00:00:00.5Z")]
)
def test_an_invalid_time_range_is_refused(start: str, end: str) -> None:
    with pytest.raises(BadInput):
        TimeRange.parse(start, end)
