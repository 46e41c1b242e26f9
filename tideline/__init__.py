"""What Tideline offers to other Python programs: readers of its flat tables.

``tideline.open_dataset("/warehouse/events/flat_web").to_table()``
"""

from typing import TYPE_CHECKING, Any


if TYPE_CHECKING:
    from streaming.table.dataset import open_dataset


__all__ = ["open_dataset"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - a module's attributes have any type
    """Import a reader when used, because the command line imports this package at each start."""
    if name == "open_dataset":
        from streaming.table.dataset import open_dataset

        return open_dataset
    raise AttributeError(name)
