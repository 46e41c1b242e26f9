from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.builders.replication.warehouse import Warehouse


if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)
