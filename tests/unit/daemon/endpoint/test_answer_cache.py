"""Answers kept in memory: found only for the content that they were made from, and bounded."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from daemon.endpoint.answers.answer_cache import AnswerCache, TableContent
from daemon.endpoint.answers.server_rules import ServerRules
from handlers.catalog.index.table_records import TableRecord
from state.partitions.filters.dialect import HIVE_2, HIVE_4
from tests.builders.endpoint.partition_requests import positional


CONTENT = TableContent("db.t", 1, b"version", TableRecord("d", "c", "file:/t"))
HIVE = ServerRules(HIVE_4, is_hive_4=True)
ASKED = positional("get_partitions", "db", "t", -1)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3), st.integers(0, 900)), max_size=60),
)
@example([(0, 0, 0), (1, 0, 0), (2, 0, 145), (3, 0, 900), (4, 0, 900), (5, 0, 900)])
def test_what_is_found_is_what_was_made_last_from_this_content(calls: list[tuple[int, int, int]]) -> None:
    cache, made = AnswerCache(bytes_max=6_000), dict[tuple[int, int], bytes]()
    for limit, version, size in calls:
        asked = positional("get_partitions", "db", "t", limit)
        content = replace(CONTENT, version=bytes([version]))
        found = cache.get(asked, HIVE, content)
        assert found in {None, made.get((limit, version))}
        if found is None:
            made[limit, version] = body = b"%d/%d" % (limit, version) + bytes(size)
            cache.put(asked, HIVE, content, body)
        assert 0 <= cache.size <= 6_000


@pytest.mark.parametrize(
    "other",
    [
        replace(CONTENT, table="db.u"),
        replace(CONTENT, number=2),
        replace(CONTENT, version=b"later"),
        replace(CONTENT, record=TableRecord("d", "c", "file:/moved")),
    ],
)
def test_an_answer_about_other_content_is_not_found(other: TableContent) -> None:
    cache = AnswerCache()
    cache.put(ASKED, HIVE, CONTENT, b"answer")
    assert cache.get(ASKED, HIVE, CONTENT) == b"answer"
    assert cache.get(ASKED, HIVE, other) is None


def test_an_answer_to_another_call_or_of_another_server_is_not_found() -> None:
    cache = AnswerCache()
    cache.put(ASKED, HIVE, CONTENT, b"answer")
    assert cache.get(positional("get_partition_names", "db", "t", -1), HIVE, CONTENT) is None
    assert cache.get(positional("get_partitions", "db", "t", 5), HIVE, CONTENT) is None
    assert cache.get(ASKED, ServerRules(HIVE_2), CONTENT) is None


def test_an_answer_that_is_repeated_is_kept_and_others_are_forgotten() -> None:
    cache = AnswerCache(bytes_max=20_000)
    cache.put(ASKED, HIVE, CONTENT, bytes(1_000))
    for limit in range(1, 200):
        assert cache.get(ASKED, HIVE, CONTENT) is not None
        cache.put(positional("get_partitions", "db", "t", limit), HIVE, CONTENT, bytes(1_000))
    assert cache.get(positional("get_partitions", "db", "t", 1), HIVE, CONTENT) is None


def test_an_answer_that_would_displace_all_others_is_not_kept() -> None:
    cache = AnswerCache(bytes_max=20_000)
    cache.put(ASKED, HIVE, CONTENT, bytes(11_000))
    assert cache.get(ASKED, HIVE, CONTENT) is None
    assert cache.size == 0
