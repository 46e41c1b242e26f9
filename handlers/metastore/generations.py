"""Which generation of Hive a metastore is, as far as its Thrift interface goes.

Found by asking ``getVersion`` (one call per connection, since the servers of a list may differ during an upgrade). 2.3
answers "3.0" whatever its version is (HiveMetaStore.HMSHandler.getVersion of branch-2.3); later ones answer their own
version, always with three numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state.errors import Unsupported


@dataclass(frozen=True, slots=True, order=True)
class Generation:
    """``major.minor`` of the Hive version; ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V2_3: Final = Generation(2, 3)
V3_1: Final = Generation(3, 1)
V4_0: Final = Generation(4, 0)
V4_1: Final = Generation(4, 1)
V4_2: Final = Generation(4, 2)

_ANSWER_OF_2_3: Final = "3.0"


def generation_of(answer: str) -> Generation:
    """Read the answer to ``getVersion``; raise Unsupported for one that names no version or one before 2.3."""
    if answer == _ANSWER_OF_2_3:
        return V2_3
    found = re.match(r"(\d+)\.(\d+)\.", answer + ".")
    generation = Generation(int(found[1]), int(found[2])) if found else None
    if generation is None or generation < V2_3:
        raise Unsupported("This is no Hive metastore of version 2.3 or later.", answer=answer[:200])
    return generation
