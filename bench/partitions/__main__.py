"""All cases: ``python -m bench.partitions [--quick] [--only PART] [--json]``."""

from __future__ import annotations

from bench.partitions.index import PARTS
from bench.report import main


if __name__ == "__main__":
    main("partitions", PARTS)
