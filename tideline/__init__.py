"""What Tideline offers to other Python programs: readers of its flat tables.

``tideline.open_dataset("/warehouse/events/flat_web").to_table()``
"""

from streaming.table.dataset import open_dataset


__all__ = ["open_dataset"]
