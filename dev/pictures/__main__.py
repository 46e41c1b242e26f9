"""``python -m dev.pictures`` writes docs/pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from dev.pictures import answers, figures, replication
from dev.pictures.canvas import Canvas


DIRECTORY: Final = Path(__file__).parents[2] / "docs" / "pictures"
PICTURES: Final[Mapping[str, Callable[[], Canvas]]] = {
    "flow": replication.draw_flow,
    "commit": replication.draw_commit,
    "load": replication.draw_load,
    "cover": answers.draw_cover,
    "key-ranges": answers.draw_ranges,
    "flat-table": answers.draw_flat_table,
    "performance-rivals": figures.draw_rivals,
    "performance-sizes": figures.draw_sizes,
}


def main() -> None:
    """Write every picture."""
    for name, draw in PICTURES.items():
        (DIRECTORY / f"{name}.svg").write_text(draw().to_svg())


if __name__ == "__main__":
    main()
