"""Unit tests are where the code is: each folder of tests/unit mirrors a folder of the project."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest


ROOT: Final = Path(__file__).parents[2]
HERE: Final = Path(__file__).parent
FOLDERS: Final = sorted({str(path.parent.relative_to(HERE)) for path in HERE.rglob("test_*.py")} - {"."})


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_of_unit_tests_mirrors_one_of_the_project(folder: str) -> None:
    assert (ROOT / folder).is_dir()
