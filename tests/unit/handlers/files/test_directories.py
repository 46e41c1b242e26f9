"""Directories with something in them, among many."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from handlers.files.directories import find_filled
from handlers.files.paths import parse_location
from handlers.files.systems.schemes import open_file_systems
from state.errors import UnsafePath


NAMES = [f"dt={day}/hr={hour}" for day in "abc" for hour in (1, 2, 3)] + ["dt=a", "dt=d"]


@pytest.mark.parametrize("single_max", [0, 1000], ids=["listed", "one by one"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    directories=st.lists(st.sampled_from(NAMES), max_size=6),
    filled=st.lists(st.sampled_from(NAMES), max_size=6),
    asked=st.lists(st.sampled_from(NAMES), unique=True),
)
def test_the_directories_with_something_in_them_are_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    single_max: int,
    directories: Sequence[str],
    filled: Sequence[str],
    asked: Sequence[str],
) -> None:
    monkeypatch.setattr("handlers.files.directories._SINGLE_MAX", single_max)
    root = tmp_path / "t"
    shutil.rmtree(root, ignore_errors=True)
    for name in (*directories, *filled):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in filled:
        (root / name / "bucket_00000").touch()
    wanted = [name for name in asked if (root / name).is_dir() and any((root / name).iterdir())]
    assert find_filled(open_file_systems(), parse_location(str(root)), asked) == wanted


def test_a_path_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnsafePath):
        find_filled(open_file_systems(), parse_location(str(tmp_path)), ["../other"])
