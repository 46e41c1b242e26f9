"""All cases: ``python -m bench.endpoint [--quick] [--json]``."""

from __future__ import annotations

from bench.endpoint.cases import cases
from bench.report import main


if __name__ == "__main__":
    main("endpoint", cases)
