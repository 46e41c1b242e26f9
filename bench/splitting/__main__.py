"""All cases: ``python -m bench.splitting [--quick] [--json]``."""

from __future__ import annotations

from bench.report import main
from bench.splitting.split_cost import cases


if __name__ == "__main__":
    main("splitting", cases)
