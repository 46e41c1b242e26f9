"""Verification: answers from the index against the metastore's, while the source changes."""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterable, Iterator
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from thrift.Thrift import TMessageType, TType

from daemon.endpoint.protocol.wire import Header, Message, Value, struct_value, text_value, write_struct
from daemon.endpoint.verification.differing_tables import AnswerDifference, DifferingTables
from daemon.endpoint.verification.verifier import WAITING_MAX, Outcome, Sample, Verifier, is_same_answer
from state.errors import BadInput, MetastoreUnavailable


REQUEST = Message(Header("get_partitions", TMessageType.CALL, 7), b"\x00")


def answer(text: str, field: int = 0, kind: int = TMessageType.REPLY) -> Message:
    return REQUEST.answer(write_struct([(field, text_value(text))]), kind)


class Scripted:
    """A metastore and an index with scripted answers."""

    def __init__(self, theirs: Iterable[Message], ours: Iterable[Message | None]) -> None:
        self._theirs, self._ours = cycle(theirs), cycle(ours)
        self.outcomes: list[Outcome] = []
        self.differing = DifferingTables()
        self.verifier = Verifier(
            lambda: self, lambda *_: next(self._ours), self.differing, self.outcomes.append
        )

    def exchange(self, request: Message) -> Message:
        assert request == REQUEST
        return next(self._theirs)

    def compare(self, live: str = "a") -> Outcome:
        return self.verifier.compare(Sample(REQUEST, answer(live), "db.t", 3, 17))


@pytest.mark.parametrize(
    ("theirs", "ours", "outcome"),
    [
        (["a"], ["a"], Outcome.EQUAL),
        (["b"], ["b"], Outcome.EQUAL),
        (["b"], ["a"], Outcome.DIFFERENT),
        (["x", "a", "a"], ["a"], Outcome.EQUAL),
        (["x"], ["b", "c", "d"], Outcome.UNDECIDED),
        (["x"], ["b", "b", "b"], Outcome.UNDECIDED),
    ],
    ids=["as-it-was", "changed-before", "different", "only-once", "changes-always", "changed-once"],
)
def test_only_an_answer_that_differs_again_and_again_while_the_table_rests_counts_as_different(
    theirs: list[str], ours: list[str], outcome: Outcome
) -> None:
    scripted = Scripted(map(answer, theirs), map(answer, ours))
    assert scripted.compare() is outcome
    assert scripted.outcomes == [outcome]
    assert [one.table for one in scripted.differing.all()] == (
        ["db.t"] if outcome is Outcome.DIFFERENT else []
    )


@pytest.mark.parametrize("theirs", [answer("error", 1), answer("error", 1, TMessageType.EXCEPTION)])
def test_an_error_of_the_metastore_proves_nothing(theirs: Message) -> None:
    scripted = Scripted([theirs], [answer("a")])
    assert scripted.compare() is Outcome.FAILED
    assert not scripted.differing.all()


def test_a_call_that_is_forwarded_by_now_is_undecided() -> None:
    assert Scripted([answer("x")], [None]).compare() is Outcome.UNDECIDED


def test_after_a_failure_the_next_sample_uses_another_connection() -> None:
    connections: Iterator[Exception | Scripted] = iter(
        [MetastoreUnavailable("down"), Scripted([answer("a")], [answer("a")])]
    )

    def connect() -> Scripted:
        found = next(connections)
        if isinstance(found, Exception):
            raise found
        return found

    verifier = Verifier(connect, lambda *_: answer("a"), DifferingTables(), lambda _: None)
    sample = Sample(REQUEST, answer("a"), "db.t", 3, 17)
    assert [verifier.compare(sample), verifier.compare(sample)] == [Outcome.FAILED, Outcome.EQUAL]


def test_samples_beyond_the_queue_are_dropped_and_counted() -> None:
    compared, outcomes = threading.Semaphore(0), list[Outcome]()

    def count(outcome: Outcome) -> None:
        outcomes.append(outcome)
        compared.release()

    metastore = Scripted([answer("a")], [answer("a")])
    verifier = Verifier(lambda: metastore, lambda *_: answer("a"), DifferingTables(), count)
    for _ in range(WAITING_MAX + 3):
        verifier.offer(Sample(REQUEST, answer("a"), "db.t", 3, 17))
    assert outcomes == 3 * [Outcome.DROPPED]
    verifier.start()
    for _ in range(WAITING_MAX + 3):
        assert compared.acquire(timeout=20)
    assert outcomes[3:] == WAITING_MAX * [Outcome.EQUAL]
    verifier.close()


TEXTS = st.text(max_size=5)


def text_map(pairs: list[tuple[str, str]]) -> Value:
    data = struct.pack(">bbi", TType.STRING, TType.STRING, len(pairs))
    return Value(TType.MAP, data + b"".join(text_value(text).data for pair in pairs for text in pair))


@given(st.dictionaries(TEXTS, TEXTS), st.dictionaries(TEXTS, TEXTS), st.randoms(use_true_random=False), TEXTS)
def test_answers_are_equal_if_their_fields_are_in_whatever_order_maps_and_fields_are_sent(
    one: dict[str, str], other: dict[str, str], random: object, name: str
) -> None:
    def body(content: dict[str, str], *, shuffled: bool) -> bytes:
        pairs = list(content.items())
        if shuffled:
            random.shuffle(pairs)  # type: ignore[attr-defined]  # a random.Random
        fields = [(1, text_value(name)), (2, text_map(pairs))]
        return write_struct([(0, struct_value(reversed(fields) if shuffled else fields))])

    assert is_same_answer(body(one, shuffled=False), body(other, shuffled=True)) == (one == other)


def names(call_names: list[str]) -> bytes:
    data = struct.pack(">bi", TType.STRING, len(call_names)) + b"".join(
        text_value(each).data for each in call_names
    )
    return write_struct([(0, Value(TType.LIST, data))])


@given(st.lists(TEXTS), st.lists(TEXTS))
def test_names_are_compared_without_their_order_where_the_metastore_defines_none(
    one: list[str], other: list[str]
) -> None:
    is_same = is_same_answer(names(one), names(other), "get_partition_names_ps")
    assert is_same == (sorted(one) == sorted(other))
    assert is_same_answer(names(one), names(one[::-1]), "get_partition_names_ps")
    assert is_same_answer(names(one), names(other), "get_partition_names") == (one == other)


@given(st.binary(max_size=40))
def test_answers_that_are_not_thrift_are_refused(data: bytes) -> None:
    try:
        is_same_answer(data, b"\x00")
    except BadInput:
        return


def test_differing_tables_survive_a_restart_and_end_with_another_number(tmp_path: Path) -> None:
    path = tmp_path / "serve-lake.json"
    found = DifferingTables(path)
    found.add(AnswerDifference("db.t", 3, "get_partitions", 17, 5))
    found.add(AnswerDifference("db.t", 3, "get_partition", 18, 6))
    again = DifferingTables(path)
    assert [(one.call, one.event_id) for one in again.all()] == [("get_partitions", 17)]
    assert (again.contains("db.t", 3), again.contains("db.t", 4)) == (True, False)
    again.forget("db.t")
    assert DifferingTables(path).all() == []
    path.write_text("{")
    assert DifferingTables(path).all() == []
