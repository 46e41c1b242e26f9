from __future__ import annotations

import re
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handlers.decoding.embedded_objects import to_stored_type
from handlers.replication.effects.databases import apply_database_changes, to_target_database
from handlers.replication.policy.locations import place_below
from handlers.replication.policy.policy import Policy
from handlers.replication.target.objects import (
    escape_path_name,
    format_partition_name,
    is_external,
    map_external_location,
    map_partition_location,
    owns_data,
    to_target_table,
    translate_plain_table,
)
from handlers.structs.objects import Database
from state.errors import UnsafePath
from tests.builders.replication.recording_metastore import RecordingMetastore
from tests.builders.replication.replay_events import a_table


POLICY = Policy(name="shop", source_db="shop", target_db="shop_r", external_base="hdfs://dr/replica/")


def test_a_table_on_the_target_has_no_ids_that_only_the_source_can_assign() -> None:
    shaped = to_target_table(
        a_table(id=7, txnId=9, catName="hive", accessType=8), POLICY, "file:/target/orders"
    )
    assert (shaped.id, shaped.txnId, shaped.catName, shaped.accessType) == (None, None, None, None)
    assert shaped.dbName == "shop_r"
    assert shaped.sd is not None
    assert shaped.sd.location == "file:/target/orders"


def test_a_view_reads_from_the_replica() -> None:
    view = a_table("v", kind="VIRTUAL_VIEW", viewExpandedText="select `o`.`id` from `shop`.`orders` `o`")
    assert (
        to_target_table(view, POLICY, None).viewExpandedText == "select `o`.`id` from `shop_r`.`orders` `o`"
    )


def test_an_external_location_is_mapped_below_the_base_without_the_sources_host() -> None:
    assert map_external_location("hdfs://source:8020/data/x", POLICY) == "hdfs://dr/replica/data/x"
    assert map_external_location("file:/data/x/", POLICY) == "hdfs://dr/replica/data/x"


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        ("hdfs://dr/tmp", "hdfs://dr/tmp/abc/xyz"),
        ("hdfs://dr/", "hdfs://dr/abc/xyz"),
        ("hdfs://dr/tmp/", "hdfs://dr/tmp/abc/xyz"),
        ("hdfs://dr/tmp/tmp1//", "hdfs://dr/tmp/tmp1/abc/xyz"),
        ("file:/", "file:/abc/xyz"),
    ],
)
def test_bases_are_normalized_as_in_hives_own_replication(base: str, expected: str) -> None:
    assert place_below(base, "hdfs://source:8020/abc/xyz") == expected


def test_without_a_base_the_target_chooses_the_location() -> None:
    assert map_external_location("hdfs://source/data/x", Policy("p", "a", "b")) is None


def test_a_new_database_is_marked_as_a_replica_without_the_sources_marks() -> None:
    source = Database(
        name="shop", description="d", parameters={"repl.source.for": "x", "team": "a", "repl.last.id": "9"}
    )
    assert to_target_database(source, POLICY).parameters == {"team": "a", "repl.target.for": "true"}


def test_an_altered_database_keeps_its_replication_parameters() -> None:
    target = Database(name="shop_r", parameters={"repl.last.id": "12", "repl.target.for": "true", "old": "1"})
    changed = apply_database_changes(
        Database(name="shop", parameters={"team": "b", "repl.source.for": "x"}), target
    )
    assert changed.parameters == {"repl.last.id": "12", "repl.target.for": "true", "team": "b"}


@pytest.mark.parametrize(
    ("kind", "parameters", "expected"),
    [
        ("MANAGED_TABLE", {}, True),
        ("EXTERNAL_TABLE", {}, False),
        ("EXTERNAL_TABLE", {"external.table.purge": "TRUE"}, True),
    ],
)
def test_data_is_dropped_with_a_table_only_if_hive_owns_it(
    kind: str, parameters: dict[str, str], expected: bool
) -> None:
    assert owns_data(a_table(kind=kind, parameters=parameters)) is expected


def test_partition_names_are_escaped_as_hive_does() -> None:
    assert (
        format_partition_name(["dt", "Hr"], ["2024-01-01 10:00", "a/b=c%"])
        == "dt=2024-01-01 10%3A00/hr=a%2Fb%3Dc%25"
    )
    assert escape_path_name("") == "__HIVE_DEFAULT_PARTITION__"


@given(st.text(max_size=30))
def test_an_escaped_path_component_contains_no_separator(text: str) -> None:
    assert not set(escape_path_name(text)) & set("/=:\\\n")


@pytest.mark.parametrize(
    "location", ["hdfs://s/../user/x", "hdfs://s/a/../x", "relative/x", "hdfs://s/a\x00b"]
)
def test_an_external_location_that_could_lead_outside_the_base_is_refused(location: str) -> None:
    with pytest.raises(UnsafePath):
        map_external_location(location, POLICY)


BELOW = Policy(name="shop", source_db="shop", target_db="shop_r")
SOURCE_OWNER = a_table(location="hdfs://nn/w/t/", parameters={})
PLAIN_OWNER = a_table(location="file:/target/t", parameters={}, kind="EXTERNAL_TABLE")


@pytest.mark.parametrize("name", ["dt=1", "dt=0"], ids=["default", "renamed without its directory"])
def test_a_partition_below_its_table_has_the_same_relative_path_on_the_target(name: str) -> None:
    located = map_partition_location(f"hdfs://nn/w/t/{name}", SOURCE_OWNER, "dt=1", PLAIN_OWNER, BELOW)
    assert located == f"file:/target/t/{name}"


@pytest.mark.parametrize("location", ["hdfs://nn/w/t2/dt=1", "hdfs://nn/w/t", "file:/x"])
def test_any_other_partition_has_a_hidden_directory_of_its_own(location: str) -> None:
    located = map_partition_location(location, SOURCE_OWNER, "dt=1", PLAIN_OWNER, BELOW)
    again = map_partition_location(f"{location}/", SOURCE_OWNER, "dt=1", PLAIN_OWNER, BELOW)
    assert located == again
    assert located is not None
    assert re.fullmatch("file:/target/t/_at_[0-9a-f]{16}/dt=1", located)


def test_partitions_of_transactional_tables_are_placed_by_the_target() -> None:
    assert map_partition_location("hdfs://nn/w/x", SOURCE_OWNER, "dt=1", a_table(), BELOW) is None


@pytest.mark.parametrize("translates", [True, False])
def test_a_plain_managed_table_becomes_what_the_target_makes_of_it(*, translates: bool) -> None:
    target: Any = RecordingMetastore({"translates_plain_tables": lambda: translates})
    table = translate_plain_table(a_table(parameters={"transactional": "false", "a": "b"}), target)
    assert is_external(table) is translates
    assert owns_data(table)
    assert (table.parameters or {})["a"] == "b"


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("MANAGED_TABLE", {"transactional": "true"}),
        ("MANAGED_TABLE", {"transactional": "true", "transactional_properties": "insert_only"}),
        ("EXTERNAL_TABLE", {"EXTERNAL": "TRUE"}),
        ("EXTERNAL_TABLE", {"EXTERNAL": "TRUE", "external.table.purge": "true"}),
        ("VIRTUAL_VIEW", {}),
    ],
)
def test_tables_of_other_kinds_are_not_translated_and_cost_no_call(
    kind: str, parameters: dict[str, str]
) -> None:
    target = RecordingMetastore({})
    table = a_table(kind=kind, parameters=dict(parameters))
    assert translate_plain_table(table.copy(), cast("Any", target)) == table
    assert target.calls == []


def test_partitions_of_a_translated_table_are_not_below_the_base() -> None:
    located = map_partition_location("hdfs://nn/w/t/dt=1", SOURCE_OWNER, "dt=1", PLAIN_OWNER, POLICY)
    assert located == "file:/target/t/dt=1"


@pytest.mark.parametrize(
    ("sent", "parameters", "stored"),
    [
        ("MANAGED_TABLE", {"EXTERNAL": "TRUE"}, "EXTERNAL_TABLE"),
        ("EXTERNAL_TABLE", {"EXTERNAL": "true"}, "EXTERNAL_TABLE"),
        ("EXTERNAL_TABLE", {"EXTERNAL": "FALSE"}, "MANAGED_TABLE"),
        ("EXTERNAL_TABLE", {}, "MANAGED_TABLE"),
        (None, {}, "MANAGED_TABLE"),
        (None, {"EXTERNAL": "TRUE"}, "EXTERNAL_TABLE"),
        ("VIRTUAL_VIEW", {"EXTERNAL": "TRUE"}, "VIRTUAL_VIEW"),
        ("MATERIALIZED_VIEW", {}, "MATERIALIZED_VIEW"),
    ],
)
def test_the_type_of_a_table_follows_its_parameter_as_in_the_metastore(
    sent: str | None, parameters: dict[str, str], stored: str
) -> None:
    table = a_table(parameters=parameters)
    table.tableType = sent
    assert to_stored_type(table).tableType == stored


def test_a_table_without_a_type_that_has_a_text_is_a_view() -> None:
    table = a_table(viewOriginalText="select 1")
    table.tableType = None
    assert to_stored_type(table).tableType == "VIRTUAL_VIEW"


def test_a_database_without_an_owner_gets_an_empty_one() -> None:
    assert to_target_database(Database(name="shop"), POLICY).ownerName == ""
    target = Database(name="shop_r", ownerName="ann")
    assert apply_database_changes(Database(name="shop"), target).ownerName == ""
