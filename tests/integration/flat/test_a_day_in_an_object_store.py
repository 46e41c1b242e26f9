"""A day of simulated hours, as in ``test_a_day``, with the table in an object store and the checkpoint on a
local disk."""

from __future__ import annotations

from typing import Any

import pytest

from tests.builders.components.object_store import TestStore
from tests.integration.flat.test_a_day import (
    stream,
    test_after_a_day_every_value_is_in_its_column_or_rescued,
)


__all__ = ["stream", "test_after_a_day_every_value_is_in_its_column_or_rescued"]


@pytest.fixture
def elsewhere(store: TestStore) -> dict[str, Any]:
    """The table in a new bucket."""
    return {"location": f"{store.new_bucket()}/events_flat"}
