"""All cases: ``python -m bench.splitting [--quick] [--only PART] [--json]``."""

from __future__ import annotations

from functools import partial

from bench.report import main
from bench.splitting import batch_overhead
from bench.splitting.split_cost import KEYS_30, cases


if __name__ == "__main__":
    main("splitting", {"splits": cases, "batches": partial(batch_overhead.measure, keys=KEYS_30)})
