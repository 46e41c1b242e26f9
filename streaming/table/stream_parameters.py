"""Parameters that the stream keeps on partitions and on the table, beside those of ``streaming.table.parameters``."""

from __future__ import annotations

from typing import Final


TOUCHED: Final = "tideline.touched"
"""Of a partition: the watermark when rows last came to it; it is sealed no sooner than the lateness after that."""
VALUES: Final = "tideline.values"
"""Of a partition: how many values each slot has (``streaming.table.fill_rates``), as the batches told it."""
RAW_BYTES: Final = "tideline.raw_bytes"
"""Of a partition: bytes of the JSON that its rows were."""
FLAT_BYTES: Final = "tideline.flat_bytes"
"""Of a sealed partition: bytes of its files."""
HARDENING: Final = "tideline.hardening"
"""Of the table: the slots on their way to STRING, and since which version: ``{"slots": [3], "version": 17}``."""
HARDENED: Final = "tideline.hardened"
"""Of the table: the version since which retained rows in ``_rescued`` may find their column wide enough."""
REPLACED: Final = "tideline.replaced"
"""Of a partition: the directory that it was switched away from, until that is noted for deletion."""
