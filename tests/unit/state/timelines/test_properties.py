"""Table properties are byte for byte those of Lens, and contradictory properties are never used."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from state.errors import BadPartitionValue, ConfigError, TidelineError, TimelineInconsistent
from state.timelines import storage_forms
from state.timelines.periods import UpdatePeriod
from state.timelines.runs import Runs
from state.timelines.storage_forms import (
    ENDS_AND_HOLES,
    RANGES,
    STORE_ALL,
    StorageForm,
    find_form,
    list_forms,
    register_form,
)
from state.timelines.table_properties import (
    PRESENT,
    build_key_prefix,
    is_present,
    read_list,
    read_time_columns,
    write_list,
)
from state.timelines.time_ranges import PartitionRange
from state.timelines.timeline import Timeline, build_form_properties


P = UpdatePeriod
FORMS = (STORE_ALL, ENDS_AND_HOLES, RANGES)
DAYS = "cube.storagetable.partition.timeline.cache.DAILY.dt."
JAN = P.DAILY.parse("2015-01-01")


def daily(form: StorageForm = ENDS_AND_HOLES, **values: str) -> dict[str, str]:
    """Return properties of one DAILY timeline on dt, written by hand; ``_`` in a name means a dot."""
    named = {DAYS + key.replace("_", "."): value for key, value in values.items()}
    return named | {DAYS + "storage.class": form.class_name}


def read(properties: Mapping[str, str]) -> list[str]:
    return [str(partition) for partition in Timeline.from_properties(properties, P.DAILY, "dt")]


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (10, {"k.size": "3", "k0": "first,", "k1": "second,", "k2": "biggggger"}),
        (3999, {"k.size": "1", "k0": "first,second,biggggger"}),
    ],
)
def test_a_list_is_split_between_items_at_its_limit(limit: int, expected: dict[str, str]) -> None:
    written = write_list("k", ["first", "second", "biggggger"], length_max=limit)
    assert written == expected
    assert read_list(written, "k") == "first,second,biggggger"


@pytest.mark.parametrize(
    ("form", "key", "lengths"),
    [
        (STORE_ALL, "partitions", [3990, 3009]),
        (ENDS_AND_HOLES, "holes", [3990, 2995]),
        (RANGES, "ranges", [3999, 3999]),
    ],
)
def test_chunks_of_500_alternate_hours_have_the_lengths_that_lens_writes(
    form: StorageForm, key: str, lengths: list[int]
) -> None:
    start = P.HOURLY.parse("2015-01-01-00")
    written = form.write(P.HOURLY, Runs.of(range(start, start + 1000, 2)))
    assert written[f"{key}.size"] == ("4" if form is RANGES else "2")
    assert [len(written[f"{key}{number}"]) for number in range(len(lengths))] == lengths
    assert all(len(value) <= 3_999 for value in written.values())


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("period", P)
def test_properties_of_500_alternate_partitions_read_back_the_same(
    period: UpdatePeriod, form: StorageForm
) -> None:
    start = (
        period.floor(1_420_070_400)
        if period.weight_ms < P.MONTHLY.weight_ms
        else period.parse(period.format(period.floor(0)))
    )
    timeline = Timeline(period, "dt", form=form, runs=Runs.of(range(start, start + 1000, 2)))
    again = Timeline.from_properties(timeline.to_properties(), period, "dt")
    assert again.runs == timeline.runs
    assert again.form is form
    again.check()
    empty = Timeline.from_properties(Timeline(period, "dt", form=form).to_properties(), period, "dt")
    assert not empty.runs


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("period", "last", "end"),
    [
        (P.SECONDLY, "9999-12-31-23-59-59", "10000-01-01-00-00-00"),
        (P.MINUTELY, "9999-12-31-23-59", "10000-01-01-00-00"),
        (P.HOURLY, "9999-12-31-23", "10000-01-01-00"),
        (P.DAILY, "9999-12-31", "10000-01-01"),
        (P.WEEKLY, "9999-W52", "10000-W01"),
        (P.WEEKLY_ISO, "9999-W52", "10000-W01"),
        (P.MONTHLY, "9999-12", "10000-01"),
        (P.QUARTERLY, "9999-10", "10000-01"),
        (P.YEARLY, "9999", "10000"),
        (P.CONTINUOUS, "9999-12-31-23-59-59", "10000-01-01-00-00-00"),
    ],
)
def test_the_last_partition_before_the_year_10000_is_written_and_read_back(
    period: UpdatePeriod, last: str, end: str, form: StorageForm
) -> None:
    ordinal = period.parse(last)
    timeline = Timeline(period, "dt", form=form, runs=Runs((ordinal - 1, ordinal + 1)))
    properties = timeline.to_properties()
    assert Timeline.from_properties(properties, period, "dt").runs == timeline.runs
    if form is RANGES:
        written = f"[{period.format(ordinal - 1)}, {end})"
        assert properties[build_key_prefix(period, "dt") + "ranges0"] == written
        assert str(PartitionRange.parse(period, written)) == written
    with pytest.raises(BadPartitionValue):
        period.parse(end)


def test_the_class_is_the_last_key_written() -> None:
    for form in FORMS:
        assert list(Timeline(P.DAILY, "dt", form=form).to_properties())[-1] == DAYS + "storage.class"


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (daily(STORE_ALL, partitions="2015-01-01,2015-01-03"), ["2015-01-01", "2015-01-03"]),
        (daily(STORE_ALL, partitions="2015-01-01,,2015-01-03,"), ["2015-01-01", "2015-01-03"]),
        (daily(first="2015-01-01", latest="2015-01-03", holes="2015-01-02"), ["2015-01-01", "2015-01-03"]),
        (daily(first="2015-01-01", latest="2015-01-02"), ["2015-01-01", "2015-01-02"]),
        (daily(first="2015-01-01", latest="2015-01-03", holes="2015-01-02 , "), ["2015-01-01", "2015-01-03"]),
        (daily(RANGES, ranges="[2015-01-01, 2015-01-03)"), ["2015-01-01", "2015-01-02"]),
        (
            daily(RANGES, ranges="[2015-01-01, 2015-01-04),[2015-01-06,2015-01-08]"),
            [f"2015-01-0{number}" for number in (1, 2, 3, 6, 7, 8)],
        ),
        (
            daily(RANGES, ranges="2015-01-01,2015-01-03,2015-01-06,2015-01-07"),
            ["2015-01-01", "2015-01-02", "2015-01-06"],
        ),
    ],
)
def test_the_old_form_without_chunks_is_read(properties: dict[str, str], expected: list[str]) -> None:
    assert read(properties) == expected


def test_stale_chunks_beyond_the_size_are_ignored() -> None:
    properties = daily(
        RANGES, ranges_size="1", ranges0="[2015-01-01, 2015-01-02)", ranges1="[2015-01-05, 2015-01-06)"
    )
    assert read(properties) == ["2015-01-01"]


def test_a_table_without_a_class_is_ends_and_holes() -> None:
    properties = daily(first="2015-01-01", latest="2015-01-01", holes_size="0")
    del properties[DAYS + "storage.class"]
    assert Timeline.from_properties(properties, P.DAILY, "dt").form is ENDS_AND_HOLES


def test_a_column_is_found_in_its_own_spelling_first_and_then_in_any_case() -> None:
    exact = Timeline(P.DAILY, "Dt", form=RANGES, runs=Runs((JAN, JAN + 1)))
    other = Timeline(P.DAILY, "dt", form=RANGES, runs=Runs((JAN, JAN + 2)))
    both = exact.to_properties() | other.to_properties()
    assert Timeline.from_properties(both, P.DAILY, "Dt").runs == exact.runs
    assert Timeline.from_properties(both, P.DAILY, "dt").runs == other.runs
    assert Timeline.from_properties(exact.to_properties(), P.DAILY, "DT").runs == exact.runs


def test_iso_weeks_use_the_keys_of_weekly() -> None:
    assert build_key_prefix(P.WEEKLY_ISO, "dt") == build_key_prefix(P.WEEKLY, "dt")


@pytest.mark.parametrize(
    "properties",
    [
        pytest.param({}, id="nothing at all: the flag was set for other timelines"),
        pytest.param(daily(), id="class without keys"),
        pytest.param(daily(first="2015-01-05", latest="2015-01-01", holes_size="0"), id="first after latest"),
        pytest.param(daily(first="2015-01-05", latest="", holes_size="0"), id="one end"),
        pytest.param(daily(latest="2015-01-05", holes_size="0"), id="other end"),
        pytest.param(daily(first="", latest="", holes="2015-01-01"), id="holes without ends"),
        pytest.param(daily(first="2015-01-01", latest="2015-01-03", holes="2015-01-01"), id="hole on an end"),
        pytest.param(daily(first="2015-01-01", latest="2015-01-03", holes="2015-01-05"), id="hole outside"),
        pytest.param(daily(first="2015-01-01", latest="2015-02-31"), id="not a date"),
        pytest.param(daily(first="2015-01", latest="2015-02"), id="another period"),
        pytest.param(daily(STORE_ALL, partitions="2015-01-01, 2015-01-02"), id="spaces in a plain list"),
        pytest.param(daily(STORE_ALL, partitions_size="2", partitions0="2015-01-01,"), id="chunk missing"),
        pytest.param(daily(STORE_ALL, partitions_size="-1"), id="negative size"),
        pytest.param(daily(STORE_ALL, partitions_size="many"), id="size is not a number"),
        pytest.param(daily(STORE_ALL, partitions_size="99999999999"), id="absurd size"),
        pytest.param(daily(STORE_ALL, partitions_size="0" * 4_301), id="size of 4,301 digits"),
        pytest.param(daily(RANGES, ranges="[2015-01-01, 2015-01-03),[2015-01-05"), id="odd number of ends"),
        pytest.param(daily(RANGES, ranges="[2015-01-01, 2015-01-03),[2015-01-02, 2015-01-05)"), id="overlap"),
        pytest.param(
            daily(RANGES, ranges="[2015-01-01, 2015-01-03),[2015-01-03, 2015-01-05)"), id="adjacent"
        ),
        pytest.param(daily(RANGES, ranges="[2015-01-01, 2015-01-01)"), id="empty range"),
        pytest.param(daily(RANGES, ranges="[2015-01-03, 2015-01-01)"), id="reversed"),
        pytest.param(daily(RANGES, ranges="{2015-01-01, 2015-01-03}"), id="not a range"),
        pytest.param(
            daily(RANGES, ranges_size="0", first="2015-01-01", latest="2015-01-02", holes_size="0"),
            id="class changed, keys of the old one",
        ),
        pytest.param(
            daily(RANGES, ranges="[2015-01-01, 2015-01-02)", partitions="2015-01-01,2015-01-02"),
            id="two forms, two stories",
        ),
    ],
)
def test_contradictions_lead_to_a_rebuild_and_are_never_served(properties: dict[str, str]) -> None:
    with pytest.raises(TimelineInconsistent):
        Timeline.from_properties(properties, P.DAILY, "dt")


def test_two_forms_with_the_same_partitions_do_not_contradict_each_other() -> None:
    properties = daily(RANGES, ranges="[2015-01-01, 2015-01-02)", partitions="2015-01-01")
    assert read(properties) == ["2015-01-01"]


def test_an_unknown_class_is_an_error_that_lists_the_known_ones() -> None:
    properties = daily(first="2015-01-01", latest="2015-01-01") | {DAYS + "storage.class": "com.example.Mine"}
    with pytest.raises(ConfigError, match="RangesPartitionTimeline"):
        Timeline.from_properties(properties, P.DAILY, "dt")


class Bits:
    """A form of a third party: the first partition and one character per partition after it."""

    name = "bits"
    class_name = "com.example.BitsPartitionTimeline"

    def write(self, period: UpdatePeriod, runs: Runs) -> dict[str, str]:
        if runs.first is None or runs.last is None:
            return {"bits": ""}
        bits = "".join("1" if ordinal in runs else "0" for ordinal in range(runs.first, runs.last + 1))
        return {"bits": f"{period.format(runs.first)} {bits}"}

    def length(self, period: UpdatePeriod, runs: Runs) -> int:
        return len(self.write(period, runs)["bits"])

    def read(self, period: UpdatePeriod, properties: Mapping[str, str]) -> Runs | None:
        if not properties.get("bits"):
            return Runs() if "bits" in properties else None
        first, bits = properties["bits"].split(" ")
        return Runs.of(period.parse(first) + at for at, bit in enumerate(bits) if bit == "1")

    def blanks(self, properties: Mapping[str, str]) -> dict[str, str]:
        return {"bits": ""} if "bits" in properties else {}


def test_a_third_party_registers_its_own_form(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage_forms, "_forms", dict(storage_forms._forms))
    bits = register_form(Bits())
    assert bits in list_forms()
    assert find_form("bits") is find_form("com.example.BitsPartitionTimeline") is bits
    timeline = Timeline(P.DAILY, "dt", form=bits, runs=Runs.of([JAN, JAN + 2]))
    again = Timeline.from_properties(timeline.to_properties(), P.DAILY, "dt")
    assert (again.form, again.runs) == (bits, timeline.runs)
    back = build_form_properties(timeline, RANGES, timeline.to_properties())
    assert read(timeline.to_properties() | back) == ["2015-01-01", "2015-01-03"]


@pytest.mark.parametrize(
    ("value", "expected"), [("true", True), ("TRUE", True), ("false", False), ("", False), ("yes", False)]
)
def test_the_flag_is_read_in_any_case(value: str, expected: bool) -> None:
    assert is_present({PRESENT: value}) == expected
    assert not is_present({})


def test_time_columns_are_read_in_their_spelling() -> None:
    assert read_time_columns({"cube.storagetable.time.partcols": "Dt, it,"}) == ("Dt", "it")
    assert read_time_columns({}) == ()


class TestMigration:
    """Only one timeline of the table changes its form."""

    def others(self) -> dict[str, str]:
        hours = Timeline(P.HOURLY, "dt", form=STORE_ALL, runs=Runs((5, 9)))
        return hours.to_properties() | {"comment": "kept", PRESENT: "true"}

    @pytest.mark.parametrize("old", FORMS)
    @pytest.mark.parametrize("new", FORMS)
    def test_the_new_form_holds_the_same_partitions_and_the_old_keys_are_empty(
        self, old: StorageForm, new: StorageForm
    ) -> None:
        timeline = Timeline(P.DAILY, "dt", form=old, runs=Runs.of(range(JAN, JAN + 2_000, 2)))
        before = timeline.to_properties() | self.others()
        changes = build_form_properties(timeline, new, before)
        after = before | changes
        again = Timeline.from_properties(after, P.DAILY, "dt")
        assert again.form is new
        assert again.runs == timeline.runs
        assert timeline.form is old, "the caller changes it when the metastore has accepted"
        if new is not old:
            assert not old.read(P.DAILY, {key.removeprefix(DAYS): value for key, value in after.items()})
        assert all(key.startswith(DAYS) for key in changes)
        assert list(changes)[-1] == DAYS + "storage.class"

    def test_a_reader_during_the_writes_finds_the_same_partitions_or_an_error(self) -> None:
        timeline = Timeline(P.DAILY, "dt", runs=Runs.of(range(JAN, JAN + 2_000, 2)))
        properties = timeline.to_properties()
        for key, value in build_form_properties(timeline, RANGES, properties).items():
            properties[key] = value
            try:
                seen = Timeline.from_properties(properties, P.DAILY, "dt").runs
            except TidelineError:
                continue
            assert seen == timeline.runs

    def test_stale_chunks_of_the_new_form_are_emptied(self) -> None:
        timeline = Timeline(P.DAILY, "dt", form=RANGES, runs=Runs.of(range(JAN, JAN + 2_000, 2)))
        before = timeline.to_properties()
        timeline.load([JAN])
        after = before | build_form_properties(timeline, RANGES, before)
        assert after[DAYS + "ranges.size"] == "1"
        assert after[DAYS + "ranges1"] == ""
