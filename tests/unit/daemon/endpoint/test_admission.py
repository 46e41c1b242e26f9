"""Which connection makes room for a new one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from daemon.endpoint.admission import Admission, admit


def decide(address: str, waiting: dict[tuple[int, str], float | None], **limits: int) -> Admission[int]:
    since = {number: at for (number, _), at in waiting.items()}
    return admit(
        address,
        list(waiting),
        since.__getitem__,
        **{"connections_max": 4, "per_address_max": 3} | limits,
    )


def test_there_is_room_below_the_limits() -> None:
    assert decide("a", {(1, "a"): 1.0, (2, "b"): 2.0}) == Admission(accepted=True)


def test_the_connection_that_has_waited_longest_makes_room() -> None:
    waiting: dict[tuple[int, str], float | None] = {
        (1, "a"): None,
        (2, "b"): 7.0,
        (3, "c"): 5.0,
        (4, "d"): 6.0,
    }
    assert decide("e", waiting) == Admission(accepted=True, closed=3)


def test_the_address_with_the_most_connections_makes_room() -> None:
    waiting: dict[tuple[int, str], float | None] = {
        (1, "a"): 1.0,
        (2, "b"): 7.0,
        (3, "b"): 8.0,
        (4, "c"): 2.0,
    }
    assert decide("d", waiting).closed == 2


def test_an_address_at_its_limit_makes_room_itself() -> None:
    waiting: dict[tuple[int, str], float | None] = {(n, "a"): 9.0 - n for n in range(3)}
    assert decide("a", {**waiting, (9, "b"): 0.0}, connections_max=9).closed == 2


def test_a_client_is_refused_only_if_every_connection_has_a_call_in_progress() -> None:
    assert decide("e", {(n, "abcd"[n]): None for n in range(4)}) == Admission(accepted=False)


@given(
    st.dictionaries(
        st.tuples(st.integers(0, 20), st.sampled_from("abc")), st.none() | st.floats(0, 9), max_size=12
    ),
    st.sampled_from("abcd"),
)
def test_the_limits_hold_and_no_call_in_progress_is_closed(
    waiting: dict[tuple[int, str], float | None], address: str
) -> None:
    admission = admit(
        address,
        [(key, key[1]) for key in waiting],
        waiting.__getitem__,
        connections_max=8,
        per_address_max=4,
    )
    own = sum(other == address for _, other in waiting)
    if admission.closed is not None:
        assert admission.accepted
        assert waiting[admission.closed] is not None
    elif admission.accepted:
        assert len(waiting) < 8
        assert own < 4
    else:
        candidates = [key for key in waiting if own < 4 or key[1] == address]
        assert all(waiting[key] is None for key in candidates)
