"""The Hive version of a metastore, as far as its Thrift interface is concerned.

The version is determined by ``getVersion``, once per connection because the servers of a list may differ during an upgrade.
4.x answers its own version, with three numbers. 2.3 and 3.1 both answer "3.0" (seen on 2.3.10 and 3.1.3); ``get_catalogs``,
which only 3.1 has, distinguishes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from state.errors import Unsupported


@dataclass(frozen=True, slots=True, order=True)
class HiveVersion:
    """A Hive version as ``major.minor``; ordered."""

    major: int
    minor: int

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}"


V2_3: Final = HiveVersion(2, 3)
V3_1: Final = HiveVersion(3, 1)
V4_0: Final = HiveVersion(4, 0)
V4_1: Final = HiveVersion(4, 1)
V4_2: Final = HiveVersion(4, 2)

AMBIGUOUS_VERSION: Final = "3.0"
"""The answer of both 2.3 and 3.1."""


def parse_hive_version(answer: str) -> HiveVersion:
    """Parse the answer to ``getVersion``; raise Unsupported if it is not a version or is older than 2.3.

    ``AMBIGUOUS_VERSION`` is parsed as 2.3; the caller must distinguish 2.3 from 3.1.
    """
    if answer == AMBIGUOUS_VERSION:
        return V2_3
    found = re.match(r"(\d+)\.(\d+)\.", answer + ".")
    version = HiveVersion(int(found[1]), int(found[2])) if found else None
    if version is None or version < V2_3:
        raise Unsupported("the server is not a Hive metastore of version 2.3 or later", answer=answer[:200])
    return version
