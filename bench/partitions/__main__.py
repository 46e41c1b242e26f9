"""All cases: ``python -m bench.partitions [--quick] [--json]``."""

from __future__ import annotations

from bench.partitions.index import cases
from bench.report import main


if __name__ == "__main__":
    main("partitions", cases)
