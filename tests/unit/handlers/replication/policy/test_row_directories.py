from __future__ import annotations

from handlers.replication.policy.locations import has_placeholder, list_row_directories
from tests.builders.replication.replay_events import a_table
from tests.builders.replication.spark_tables import a_spark_table


LOCATION = "file:/source/shop.db/orders"


def test_rows_are_in_the_location_if_spark_reads_the_same() -> None:
    assert list_row_directories(a_spark_table()) == (LOCATION,)
    assert list_row_directories(a_spark_table(path=f"{LOCATION}/")) == (LOCATION,)


def test_rows_are_in_the_path_if_the_location_is_a_placeholder() -> None:
    table = a_spark_table(location=f"{LOCATION}-__PLACEHOLDER__", path="file:/files/orders", provider="json")
    assert has_placeholder(table)
    assert list_row_directories(table) == ("file:/files/orders",)


def test_rows_may_be_in_both_after_a_move_by_hive() -> None:
    table = a_spark_table(path="file:/files/orders")
    assert not has_placeholder(table)
    assert list_row_directories(table) == (LOCATION, "file:/files/orders")


def test_a_path_counts_only_for_data_sources_of_spark() -> None:
    table = a_spark_table(path="file:/files/orders")
    table.parameters = {}
    assert list_row_directories(table) == (LOCATION,)
    assert list_row_directories(a_table("v", location=None, kind="VIRTUAL_VIEW")) == ()
