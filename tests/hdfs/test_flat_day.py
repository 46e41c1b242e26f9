"""A day of simulated hours, as in ``test_a_day``, with the table and its checkpoint on HDFS."""

from __future__ import annotations

from tests.integration.flat.test_a_day import (
    stream,
    test_after_a_day_every_value_is_in_its_column_or_rescued,
)


__all__ = ["stream", "test_after_a_day_every_value_is_in_its_column_or_rescued"]
