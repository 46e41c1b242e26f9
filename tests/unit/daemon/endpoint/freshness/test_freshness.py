"""Freshness: what a served answer contains, against a history of the source."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from daemon.endpoint.freshness.newest_event import Freshness, Observation, Patience


TIMES = st.floats(0, 100, allow_nan=False)


@dataclass(frozen=True)
class Query:
    """A query to the source: when it was sent, and when the source read its newest event."""

    sent_s: float
    read_s: float


@st.composite
def queries(draw: st.DrawFn) -> Query:
    sent_s = draw(TIMES)
    return Query(sent_s, sent_s + draw(st.floats(0, 10, allow_nan=False)))


def newest(commits: list[float], at_s: float) -> int:
    """Return the newest event id at a time: event n is the n-th commit."""
    return bisect_right(commits, at_s)


@given(
    commits=st.lists(TIMES).map(sorted),
    sent=st.lists(queries()),
    arrived_s=TIMES,
    view=st.integers(0, 20),
    age_max_s=st.sampled_from([0.0, 0.5, 5.0]),
)
def test_an_answer_contains_everything_that_was_committed_before_the_oldest_query_it_may_rely_on(
    commits: list[float], sent: list[Query], arrived_s: float, view: int, age_max_s: float
) -> None:
    freshness = Freshness(age_max_s)
    observations = [Observation(newest(commits, one.read_s), one.sent_s) for one in sent]
    is_served = any(freshness.accepts(one, arrived_s) and view >= one.event_id for one in observations)
    if is_served:
        assert view >= newest(commits, arrived_s - age_max_s)


@given(TIMES, TIMES)
def test_exact_freshness_relies_only_on_queries_sent_after_the_request_arrived(
    arrived_s: float, sent_s: float
) -> None:
    assert Freshness().accepts(Observation(7, sent_s), arrived_s) == (sent_s > arrived_s)
    assert not Freshness().accepts(None, arrived_s)


def test_eventual_freshness_sends_no_query() -> None:
    eventual = Freshness(None)
    assert eventual.accepts(None, 1.0)
    assert (eventual.observes, Freshness().observes, Freshness(0.5).observes) == (False, True, True)


@given(st.lists(st.integers(0, 50)), st.integers(0, 60))
def test_no_request_waits_before_the_copy_reaches_what_others_waited_for_until_their_time_out(
    unreached: list[int], position: int
) -> None:
    patience = Patience()
    for event_id in unreached:
        patience = patience.after_timeout(event_id)
    assert patience.may_wait(position) == all(position >= event_id for event_id in unreached)
