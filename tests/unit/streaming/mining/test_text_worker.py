"""Texts are read in a process whose limits no text exceeds, and the others are read as without it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import closing

import pytest

from state.errors import MinerEnded
from streaming.mining.miner import Miner, Question, mine
from streaming.mining.model import Form, QueryText, Unresolved
from streaming.mining.sources.source import QueryBatch
from streaming.mining.text_worker import TextWorker
from tests.builders.keylog.mining import RULES, MemorySink, mined, named, query


FAST = {"memory_bytes": 64 << 20, "cpu_s": 3}
DOUBLING = (
    "with a0 as (select json from raw_events)"
    + "".join(
        f", a{n} as (select json from a{n - 1} union all select json from a{n - 1})" for n in range(1, 60)
    )
    + " select get_json_object(json, '$.a') from a59"
)
COLONS = "select json:" + "a.b:" * 30_000 + "c from raw_events"
GOOD = [f"select get_json_object(json, '$.good{n}') from raw_events" for n in range(120)]


@pytest.fixture(scope="module")
def worker() -> Iterator[TextWorker]:
    with closing(TextWorker(RULES, **FAST)) as worker:
        yield worker


def question(text: str, form: Form = Form.SQL) -> Question:
    return Question(text, form, None)


@pytest.mark.parametrize("text", [DOUBLING, COLONS], ids=["common table expressions", "colons"])
def test_a_text_that_exceeds_the_limits_is_too_large_and_the_others_are_read(
    worker: TextWorker, text: str
) -> None:
    texts = [*GOOD[:30], text, *GOOD[30:]]
    found = worker.read_all([question(each) for each in texts])
    assert [dict(each.unresolved) for each in found[30:31]] == [{Unresolved.SIZE: 1}]
    assert [named(each) for each in [*found[:30], *found[31:]]] == [named(mined(each)) for each in GOOD]


def test_the_process_is_reused_and_replaced_only_after_a_text_that_exceeds_the_limits(
    worker: TextWorker,
) -> None:
    worker.read_all([question(GOOD[0])])
    first = worker.pid
    worker.read_all([question(each) for each in GOOD])
    assert worker.pid == first
    worker.read_all([question(DOUBLING)])
    assert worker.pid is None


def test_a_process_that_was_killed_from_outside_is_not_the_fault_of_the_text(worker: TextWorker) -> None:
    worker.read_all([question(GOOD[0])])
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    (found,) = worker.read_all([question(GOOD[1])])
    assert named(found) == named(mined(GOOD[1]))


class _Batches:
    """A source of two batches."""

    name = "test"

    def batches(self, position: str | None) -> Iterator[QueryBatch]:
        batches: list[tuple[str, list[QueryText]]] = [
            ("1", [query(GOOD[0]), query(DOUBLING), query(GOOD[1])]),
            ("2", [query(DOUBLING), query(GOOD[2])]),
        ]
        for at, queries in batches:
            if position is None or at > position:
                yield QueryBatch(tuple(queries), at)


def test_the_position_after_a_text_that_exceeds_the_limits_is_recorded(worker: TextWorker) -> None:
    sink, miner = MemorySink(), Miner(RULES, worker)
    report = mine(_Batches(), miner, sink)
    assert report.unresolved[Unresolved.SIZE] == 2
    assert sink.positions == {"test": "2"}
    assert sorted(str(each.key.text) for each in sink.requests) == ["$.good0", "$.good1", "$.good2"]
    assert mine(_Batches(), Miner(RULES, worker), sink).queries == 0


def test_a_text_is_read_once_by_its_fingerprint_even_if_it_exceeds_the_limits(worker: TextWorker) -> None:
    asked: list[int] = []

    class Counting:
        def read_all(self, questions: list[Question]) -> list[object]:
            asked.append(len(questions))
            return worker.read_all(questions)  # type: ignore[return-value]

    miner = Miner(RULES, Counting())  # type: ignore[arg-type]
    miner.mine_all([query(DOUBLING), query(DOUBLING), query(GOOD[0])])
    miner.mine_all([query(DOUBLING)])
    assert asked == [2, 0]


def test_the_parent_needs_no_more_memory_for_a_text_that_exceeds_the_limits(worker: TextWorker) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    worker.read_all([question(COLONS)])
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000


def test_a_process_that_cannot_start_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaming.mining.text_worker.sys.executable", "/bin/false")
    with closing(TextWorker(RULES)) as worker, pytest.raises(MinerEnded):
        worker.read_all([question(GOOD[0])])
