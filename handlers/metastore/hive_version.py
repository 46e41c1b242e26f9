"""Which generation of Hive a metastore is, as far as its Thrift interface goes.

Found by asking ``getVersion`` (once per connection, since the servers of a list may differ during an upgrade). 4.x answers
its own version, with three numbers. 2.3 and 3.1 both answer "3.0" (seen on 2.3.10 and 3.1.3), so the two are told apart by a
call that only the later one has (``get_catalogs``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state.errors import Unsupported


@dataclass(frozen=True, slots=True, order=True)
class HiveVersion:
    """``major.minor`` of the Hive version; ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V2_3: Final = HiveVersion(2, 3)
V3_1: Final = HiveVersion(3, 1)
V4_0: Final = HiveVersion(4, 0)
V4_1: Final = HiveVersion(4, 1)
V4_2: Final = HiveVersion(4, 2)

AMBIGUOUS_ANSWER: Final = "3.0"
"""What both 2.3 and 3.1 call themselves."""


def parse_hive_version(answer: str) -> HiveVersion:
    """Read the answer to ``getVersion``; raise Unsupported for one that names no version or one before 2.3.

    ``AMBIGUOUS_ANSWER`` is read as 2.3, and the caller looks further.
    """
    if answer == AMBIGUOUS_ANSWER:
        return V2_3
    found = re.match(r"(\d+)\.(\d+)\.", answer + ".")
    generation = HiveVersion(int(found[1]), int(found[2])) if found else None
    if generation is None or generation < V2_3:
        raise Unsupported("This is no Hive metastore of version 2.3 or later.", answer=answer[:200])
    return generation
