"""All hostile cases: ``python -m bench.hostile [--quick] [--only PART] [--json]``."""

from __future__ import annotations

from bench.hostile import memory, storms
from bench.report import main


PARTS = {"storms": storms.cases, "memory": memory.cases}

if __name__ == "__main__":
    main("hostile", PARTS)
