from __future__ import annotations

from pathlib import Path

import pytest

from tests.builders.replication.warehouse import Warehouse


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse(tmp_path)
