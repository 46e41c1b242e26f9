"""All cases of replication: ``python -m bench.replication [--quick] [--only PART] [--json]``."""

from __future__ import annotations

from bench.replication import drain
from bench.report import main


PARTS = {"drain": drain.cases}

if __name__ == "__main__":
    main("replication", PARTS)
