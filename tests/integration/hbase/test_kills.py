"""An index on HBase that is killed anywhere never lacks a row or a posting, answers correctly, and ends as
without a crash."""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.process import BaseProcess

import pytest

from handlers.hbase.store import HBaseStore, open_store
from state.partitions.index import records
from state.partitions.index.partition_index import PartitionIndex
from tests.crash.programs.hbase_index import MARK, STEPS, Partitions, expected, run, table_of


HOST = "127.0.0.1"
RANDOM_KILLS = 12
LONGEST_S = 0.15
# A server that has imported everything forks the programs: each costs a hundredth of a second.
PROGRAMS = multiprocessing.get_context("forkserver")
PROGRAMS.set_forkserver_preload(["tests.crash.programs.hbase_index", "happybase"])


@pytest.fixture
def watching(hbase_port: int, table: str) -> Iterator[HBaseStore]:
    """A reader that was there before the program, and ends nothing for it."""
    with closing(open_store(HOST, hbase_port, table, timeout_s=30)) as store:
        yield store


def started(*arguments: object) -> BaseProcess:
    program = PROGRAMS.Process(target=run, args=arguments, daemon=True)
    program.start()
    return program


def exit_code(program: BaseProcess) -> int:
    program.join(60)
    assert program.exitcode is not None, "the program hangs"
    return program.exitcode


def partitions(index: PartitionIndex, text: str = "") -> Partitions:
    return {
        each.values: each.payload
        for table in index.tables()
        for each in index.partitions(index.prepare(table, text))
    }


def expect_right_answers(store: HBaseStore) -> None:
    """Before anybody puts anything right: all that is in both neighbouring states is there, and no more than
    in one of them."""
    step = int(store.get(MARK) or b"0")
    before, after = set(expected(step)), set(expected(min(step + 1, STEPS)))
    index = PartitionIndex(store)
    assert len(index.tables()) <= 2  # the old and the new name of one table
    for name in index.tables():
        found = {each.values for each in index.partitions(index.prepare(name, ""))}
        assert before & after <= found <= before | after | set(expected(max(step - 1, 0)))
        hour = {each.values for each in index.partitions(index.prepare(name, "hr = 2"))}
        assert hour == {values for values in found if values[1] == "2"}
        for row in store.scan_keys(index.table(name).rows, index.table(name).rows + b"\xff"):
            postings = records.posting_keys(index.table(name), row)
            assert store.existing(postings) == set(postings), "a row has all its postings"


def expect_whole(port: int, table: str) -> int:
    """Begin to write as the next program does: the state of a step, and nothing of the next one."""
    with closing(open_store(HOST, port, table, timeout_s=30)) as store:
        with store.transaction():
            pass
        step = int(store.get(MARK) or b"0")
        index = PartitionIndex(store)
        index.check()
        store.check()
        there = partitions(index)
        assert there == expected(step)
        assert index.tables() in ([], [table_of(step)])
        return step


POINTS = [
    "hbase-undo-logged",
    "hbase-spilled",
    "hbase-undo-removed",
    "hbase-logged",
    *(f"hbase-put-{kind.name.lower()}" for kind in records.EntryKind),
    *(f"hbase-deleted-{kind.name.lower()}" for kind in records.EntryKind),
]


@pytest.mark.parametrize("point", POINTS)
def test_an_index_killed_at_any_step_continues_and_ends_like_one_without_a_crash(
    point: str, hbase_port: int, table: str, watching: HBaseStore
) -> None:
    kills = 0
    while exit_code(started(hbase_port, table, f"{point}:2")) == -9:
        kills += 1
        expect_right_answers(watching)
        expect_whole(hbase_port, table)
        assert kills <= STEPS * 2
    assert kills
    step = expect_whole(hbase_port, table)
    assert step == STEPS
    assert partitions(PartitionIndex(watching)) == expected(STEPS)


def test_an_index_killed_at_random_moments_continues_and_ends_like_one_without_a_crash(
    hbase_port: int, table: str, watching: HBaseStore
) -> None:
    moments = random.Random(7)  # noqa: S311 - moments, not secrets
    for _ in range(RANDOM_KILLS):
        begun = PROGRAMS.Event()
        program = started(hbase_port, table, None, begun)
        assert begun.wait(60)
        program.join(moments.uniform(0, LONGEST_S))
        program.kill()
        exit_code(program)
        expect_right_answers(watching)
        expect_whole(hbase_port, table)
    assert exit_code(started(hbase_port, table)) == 0
    assert expect_whole(hbase_port, table) == STEPS
    assert partitions(PartitionIndex(watching)) == expected(STEPS)
