"""Facts, statistics and write ids of both sides: what is a difference, and what each side may change on its
own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import ACCURATE
from handlers.replication.verification.descriptions import (
    Description,
    Statistics,
    compare,
    compare_statistics,
    compare_write_id_lists,
)
from handlers.replication.verification.facts import (
    compare_facts,
    describe_constraints,
    describe_database,
    describe_table,
)
from handlers.replication.verification.findings import LISTED_MAX, Difference, Findings, NotCompared
from handlers.structs.constraints import FOREIGN_KEY, SQLForeignKey
from handlers.structs.objects import Database, FieldSchema, SerDeInfo, StorageDescriptor, Table
from state.transactions.valid_write_ids import ValidWriteIds


POLICY = Policy("p", "shop", "shop_r", exclude=("tmp_*",))


def table(**changed: Any) -> Table:
    values: dict[str, Any] = {
        "tableName": "t",
        "dbName": "shop",
        "tableType": "MANAGED_TABLE",
        "owner": "ann",
        "sd": StorageDescriptor(
            cols=[FieldSchema(name="id", type="int"), FieldSchema(name="word", type="string")],
            location="file:/source/t",
            inputFormat="orc",
            serdeInfo=SerDeInfo(serializationLib="orc", parameters={"a": "b"}),
        ),
        "parameters": {"transient_lastDdlTime": "1", "comment": "x", "numRows": "3"},
    }
    return Table(**(values | changed))


def differing(source: Table, target: Table) -> set[tuple[str, str]]:
    found = compare_facts(describe_table(source, POLICY), describe_table(target, None))
    return {(each.kind, each.key) for each in found if isinstance(each, Difference)}


def test_the_copy_of_a_partition_outside_of_its_table_may_be_anywhere_on_the_target() -> None:
    outside, inside = Description({}), Description({("location", ""): "/dt=b"})
    assert list(compare(outside, inside)) == []
    assert list(compare(inside, inside)) == []
    assert list(compare(inside, outside, "dt=b")) == [Difference("location", "dt=b", "/dt=b", None)]


def test_ids_locations_and_parameters_of_each_side_are_no_difference() -> None:
    other = table(
        dbName="shop_r",
        id=7,
        parameters={
            "transient_lastDdlTime": "2",
            "comment": "x",
            "tideline.load": "l1",
            "cube.storagetable.partition.timeline.cache.present": "true",
        },
    )
    other.sd.location = "file:/target/t"
    assert differing(table(), other) == set()


def test_an_owner_without_a_kind_is_a_user() -> None:
    assert differing(table(ownerType=None), table(ownerType=1)) == set()
    assert differing(table(ownerType=None), table(ownerType=2)) == {("owner", "")}


def test_every_other_part_of_a_table_is_compared() -> None:
    changed = table(
        owner="bob", parameters={"comment": "y"}, partitionKeys=[FieldSchema(name="dt", type="string")]
    )
    changed.sd.cols = [FieldSchema(name="word", type="string"), FieldSchema(name="id", type="bigint")]
    changed.sd.serdeInfo = SerDeInfo(serializationLib="orc")
    assert differing(table(), changed) == {
        ("owner", ""),
        ("parameter", "comment"),
        ("partition-column", "dt"),
        ("column", "id"),
        ("column", "word"),
        ("storage", "serde parameter a"),
    }


def test_a_views_text_is_compared_as_replay_rewrites_it() -> None:
    text = "select `t`.`id` from `{}`.`t`"
    source = table(tableType="VIRTUAL_VIEW", viewExpandedText=text.format("shop"))
    assert differing(source, table(tableType="VIRTUAL_VIEW", viewExpandedText=text.format("shop_r"))) == set()
    wrong = table(tableType="VIRTUAL_VIEW", viewExpandedText=text.format("shop"))
    assert differing(source, wrong) == {("view", "expanded text")}


def test_databases_are_compared_without_the_parameters_of_replication() -> None:
    source = Database(name="shop", description="d", parameters={"repl.source.for": "p", "team": "a"})
    target = Database(name="shop_r", description="d", parameters={"repl.last.id": "7", "team": "b"})
    (found,) = compare_facts(describe_database(source), describe_database(target))
    assert isinstance(found, Difference)
    assert (found.key, found.source, found.target) == ("parameter team", "a", "b")


def test_a_foreign_key_to_a_table_that_is_not_replicated_is_not_compared() -> None:
    def key(referred: str) -> SQLForeignKey:
        return SQLForeignKey(
            fk_name="fk", fkcolumn_name="a", pktable_db="shop", pktable_name=referred, pkcolumn_name="id"
        )

    kept, skipped = describe_constraints(FOREIGN_KEY, [key("users"), key("tmp_users")], POLICY)
    assert kept[0] == ("constraint", "fk a")  # type: ignore[index]  # a fact
    assert skipped == NotCompared("constraints")


BASIC = {"numRows": "3", "COLUMN_STATS_ACCURATE": '{"BASIC_STATS":"true"}'}


def test_statistics_of_rows_that_were_never_committed_are_not_compared() -> None:
    source = Statistics(BASIC, {"id": "low=1"}, valid=False)
    found = list(compare_statistics(source, Statistics({"numRows": "3"}, {}), compacted=False))
    assert all(isinstance(each, NotCompared) for each in found)


def test_statistics_that_the_target_ignores_for_an_abort_are_a_difference_only_with_another_write_id() -> (
    None
):
    source = Statistics(BASIC, {"id": "low=1"}, write_id=4)
    ignored = Statistics(BASIC, {}, valid=False, write_id=4)
    assert list(compare_statistics(source, ignored, compacted=False)) == [NotCompared("statistics")]
    other = Statistics(BASIC, {}, valid=False, write_id=3)
    (found,) = compare_statistics(source, other, compacted=False)
    assert isinstance(found, Difference)


def test_other_statistics_are_a_difference_unless_a_side_compacted_the_files() -> None:
    source, target = Statistics(BASIC, {"id": "low=1"}), Statistics(BASIC | {"numRows": "4"}, {"id": "low=2"})
    found = list(compare_statistics(source, target, compacted=False))
    assert [each.key for each in found if isinstance(each, Difference)] == ["numRows", "column id"]
    assert list(compare_statistics(source, target, compacted=True)) == [NotCompared("statistics")] * 2


@pytest.mark.parametrize("transactional", [True, False])
def test_a_mark_of_columns_alone_makes_no_statistics_of_a_transactional_table_accurate(
    *, transactional: bool
) -> None:
    mark = {"COLUMN_STATS_ACCURATE": '{"COLUMN_STATS":{"id":"true"}}'}
    source = Statistics(BASIC, {"id": "low=1"}, transactional=transactional)
    target = Statistics(BASIC | mark, {}, transactional=transactional)
    found = list(compare_statistics(source, target, compacted=False))
    assert [isinstance(each, NotCompared) for each in found] == [transactional] * 2


@pytest.mark.parametrize(
    ("mark", "is_compared"),
    [
        ('{"COLUMN_STATS":{"id":"true"}}', False),
        ('{"BASIC_STATS":"true"}', False),
        ('{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true","item":"true"}}', True),
        ('{"COLUMN_STATS":{"item":"true"}}', True),
        ("TRUE", True),
        ('["BASIC_STATS"]', True),
    ],
)
def test_a_mark_that_names_less_than_the_source_makes_the_target_slower_and_is_not_compared(
    mark: str, *, is_compared: bool
) -> None:
    source = Statistics({ACCURATE: '{"BASIC_STATS":"true","COLUMN_STATS":{"id":"true"}}'}, {})
    (found,) = compare_statistics(source, Statistics({ACCURATE: mark}, {}), compacted=False)
    assert isinstance(found, Difference) == is_compared


def test_statistics_that_only_the_target_has_are_a_difference() -> None:
    source, target = Statistics(BASIC, {}), Statistics(BASIC, {"id": "low=1"})
    (found,) = compare_statistics(source, target, compacted=False)
    assert isinstance(found, Difference)
    assert (found.key, found.source) == ("column id", None)


def ids(mark: int, opened: tuple[int, ...] = (), aborted: tuple[int, ...] = ()) -> ValidWriteIds:
    return ValidWriteIds("shop.t", mark, opened, aborted)


def test_an_abort_that_only_the_target_remembers_is_a_difference_only_if_the_source_has_files_of_it() -> None:
    source, target = ids(5), ids(5, aborted=(4,))
    assert list(compare_write_id_lists(source, target, written={1, 2}, compacted_up_to=0)) == []
    assert list(compare_write_id_lists(source, target, written={1}, compacted_up_to=5)) == [
        NotCompared("write-ids")
    ]
    (found,) = compare_write_id_lists(source, target, written={4}, compacted_up_to=0)
    assert isinstance(found, Difference)
    assert (found.key, found.source, found.target) == ("4", "visible", "aborted")


@given(st.integers(0, 8), st.integers(0, 8), st.sets(st.integers(1, 8)), st.sets(st.integers(1, 8)))
def test_another_highest_write_id_is_a_difference_unless_the_source_aborted_what_is_missing(
    ours: int, theirs: int, aborted: set[int], written: set[int]
) -> None:
    source = ids(ours, aborted=tuple(sorted(each for each in aborted if each <= ours)))
    found = compare_write_id_lists(source, ids(theirs), written=written, compacted_up_to=0)
    differing = any(isinstance(each, Difference) for each in found)
    if source.may_be_cut:
        return
    missing = [each for each in range(theirs + 1, ours + 1) if source.is_visible(each)]
    assert differing == (bool(missing) or theirs > ours)


def test_a_table_that_differs_everywhere_is_counted_completely_and_listed_in_part() -> None:
    findings = Findings()
    findings.add(Difference("file", str(number), "1", None) for number in range(LISTED_MAX + 5))
    assert (findings.difference_count, len(findings.differences)) == (LISTED_MAX + 5, LISTED_MAX)
