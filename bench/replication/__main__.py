"""All cases of replication: ``python -m bench.replication [--quick] [--only PART] [--json]``."""

from __future__ import annotations

from bench.replication import bootstrap, drain, from_hive_3, incremental, memory
from bench.report import main


PARTS = {
    "drain": drain.cases,
    "drain_from_3_1": from_hive_3.cases,
    "incremental": incremental.cases,
    "lag": incremental.lag_cases,
    "bootstrap_tables": bootstrap.table_cases,
    "bootstrap_partitions": bootstrap.partition_cases,
    "memory_transaction": memory.transaction_cases,
    "memory_policy": memory.policy_cases,
}

if __name__ == "__main__":
    main("replication", PARTS)
