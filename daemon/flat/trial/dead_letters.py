"""Dead letters of a first try: one line for each reason, with the text of one of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from state.columns.slots.slots import RESCUED


if TYPE_CHECKING:
    from collections.abc import Mapping


SAMPLE_CHARS: Final = 160
_MEANINGS: Final = {
    "wrong-time": "the time is missing, of another form, before the year 2000 or in the future",
    "malformed": "not a JSON object; also in _rescued of its hour",
    "oversize": "longer than limits.record_bytes",
}


def read_samples(directory: str) -> dict[str, str]:
    """Return the text of one dead letter for each reason; none for files that cannot be read."""
    from pyarrow import ArrowException, orc

    samples: dict[str, str] = {}
    for path in sorted(Path(directory).glob("*/*.orc")):
        if path.parent.name in samples:
            continue
        try:
            texts = orc.ORCFile(path).read_stripe(0, columns=[RESCUED]).column(0)
        except (OSError, ArrowException, IndexError):
            continue
        if len(texts):
            samples[path.parent.name] = str(texts[0].as_py())[:SAMPLE_CHARS]
    return samples


def dead_letter_lines(counts: Mapping[str, int], samples: Mapping[str, str]) -> list[str]:
    """Return the lines for a terminal."""
    lines = []
    for reason, count in counts.items():
        meaning = f" ({_MEANINGS[reason]})" if reason in _MEANINGS else ""
        lines.append(f"  {count:,} {reason}{meaning}")
        if reason in samples:
            lines.append(f"    for example: {samples[reason]}")
    return lines
