from __future__ import annotations

import resource
from collections.abc import Callable

import pytest

from daemon.process import descriptors


@pytest.fixture
def limits(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], list[tuple[int, int]]]:
    def be(soft: int, hard: int) -> list[tuple[int, int]]:
        written: list[tuple[int, int]] = []
        monkeypatch.setattr(resource, "getrlimit", lambda _: written[-1] if written else (soft, hard))
        monkeypatch.setattr(resource, "setrlimit", lambda _, pair: written.append(pair))
        return written

    return be


@pytest.mark.parametrize(
    ("soft", "hard", "raised"),
    [
        (1024, 4096, 4096),
        (1024, 1_048_576, descriptors.SOFT_LIMIT_MAX),
        (1024, resource.RLIM_INFINITY, descriptors.SOFT_LIMIT_MAX),
    ],
)
def test_the_soft_limit_is_raised_as_far_as_is_allowed_and_sensible(
    limits: Callable[[int, int], list[tuple[int, int]]], soft: int, hard: int, raised: int
) -> None:
    written = limits(soft, hard)
    assert descriptors.raise_limit() == raised
    assert written == [(raised, hard)]


@pytest.mark.parametrize(("soft", "hard"), [(4096, 4096), (100_000, 200_000), (resource.RLIM_INFINITY,) * 2])
def test_a_limit_that_is_high_enough_stays(
    limits: Callable[[int, int], list[tuple[int, int]]], soft: int, hard: int
) -> None:
    assert (limits(soft, hard), descriptors.raise_limit()) == ([], soft)


@pytest.mark.parametrize(
    ("soft", "first_reserved"), [(4096, 4096 - descriptors.RESERVED), (512, 256), (65_536, 65_024)]
)
def test_the_last_descriptors_are_reserved(
    limits: Callable[[int, int], list[tuple[int, int]]], soft: int, first_reserved: int
) -> None:
    limits(soft, soft)
    assert not descriptors.is_reserved(first_reserved - 1)
    assert descriptors.is_reserved(first_reserved)


def test_nothing_is_reserved_where_there_is_no_limit(
    limits: Callable[[int, int], list[tuple[int, int]]],
) -> None:
    limits(resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    assert not descriptors.is_reserved(1_000_000)
