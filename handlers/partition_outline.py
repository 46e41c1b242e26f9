"""The part of a partition that a catalog without a partition index reads from an event.

Decoding a whole partition takes most of the time of applying its event, and creates some thirty objects. Timelines need two of its fields.
"""

from __future__ import annotations

from typing import Annotated

from handlers.structs.struct import Struct, resolve


class PartitionOutline(Struct):
    """Two fields of Hive's ``Partition``, with their numbers; the others are skipped as unknown fields are."""

    values: Annotated[list[str], 1]
    parameters: Annotated[dict[str, str] | None, 7] = None


resolve()
