from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streaming.batch.watermark import Watermark


BATCHES = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 3), st.none() | st.integers(0, 10_000), max_size=4),
        st.integers(0, 500),
    ),
    max_size=20,
)


def test_the_slowest_partition_decides() -> None:
    reached = Watermark().advance({0: 100, 1: 50}, 1_000, 600).advance({0: 200, 1: None}, 1_100, 600)
    assert reached.reached_s == 50


def test_a_partition_without_events_holds_the_watermark_until_it_is_idle() -> None:
    first = Watermark().advance({0: 100, 1: None}, 1_000, 600)
    assert first.reached_s is None
    assert first.advance({0: 200, 1: None}, 1_599, 600).reached_s is None
    assert first.advance({0: 200, 1: None}, 1_601, 600).reached_s == 200


def test_when_all_partitions_are_idle_the_fastest_decides() -> None:
    reached = Watermark().advance({0: 100, 1: 50}, 1_000, 600)
    assert reached.advance({0: None, 1: None}, 9_000, 600).reached_s == 100


@given(BATCHES)
def test_the_watermark_never_goes_back_and_never_passes_the_events(
    batches: list[tuple[dict[int, int | None], int]],
) -> None:
    mark, now_s, seen = Watermark(), 0, []
    for latest, passed_s in batches:
        now_s += passed_s
        seen += [each for each in latest.values() if each is not None]
        before, mark = mark, mark.advance(latest, now_s, 300)
        mark.check()
        assert before.reached_s is None or (mark.reached_s is not None and mark.reached_s >= before.reached_s)
        assert mark.reached_s is None or mark.reached_s <= max(seen)
        assert Watermark.of_json(mark.to_json()) == mark
