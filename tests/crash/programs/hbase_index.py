"""The program that the HBase test kills:
partitions come, go, change their table and are loaded anew, step by step.

Every step is one transaction, which also moves the mark; ``expected(n)`` is what step n leaves. The buffer is
short, so that loads go out before their commit too.
"""

from __future__ import annotations

from multiprocessing.synchronize import Event
from typing import Final

from handlers import failpoints
from handlers.hbase import transaction
from handlers.hbase.store import open_store
from state.partitions.index.partition_index import PartitionIndex


STEPS: Final = 6
MARK: Final = b"mark"
COLUMNS: Final = [("ds", "string"), ("hr", "int"), ("region", "string")]
SHORT_BUFFER: Final = 60
Partitions = dict[tuple[str, ...], bytes]


def rows(step: int, count: int) -> Partitions:
    """Partitions that can be told from the step; some are those of the step before."""
    return {
        (f"d{step + at // 4}", str(at % 4), "eu" if at % 3 else "us"): b"%d" % step for at in range(count)
    }


def table_of(step: int) -> str:
    """The table has another name after every third step."""
    return f"sales.events_{step // 3}"


def expected(step: int) -> Partitions:
    """What is there after a step."""
    if step == 0:
        return {}
    if step % 2:
        return rows(step, 25)
    kept = {values: payload for values, payload in expected(step - 1).items() if values[1] != "2"}
    return kept | rows(step + 2, 8)


def run(port: int, table: str, failpoint: str | None = None, begun: Event | None = None) -> None:
    """Go on from the mark to the last step; end at a failpoint (``name:count``)."""
    transaction.SPILL_ENTRIES = SHORT_BUFFER  # type: ignore[misc]  # a constant for everybody else
    if failpoint is not None:
        failpoints._CHOSEN = failpoints._Countdown(failpoint)  # type: ignore[misc]  # likewise
    store = open_store("127.0.0.1", port, table, timeout_s=30)
    if begun is not None:
        begun.set()
    first = int(store.get(MARK) or b"0") + 1
    for step in range(first, STEPS + 1):
        index = PartitionIndex(store)
        with store.transaction() as txn:
            change = index.change(txn)
            change.rename(table_of(step - 1), table_of(step))
            change.follow(table_of(step), COLUMNS)
            if step % 2:
                change.load(table_of(step), expected(step).items())
            else:
                for values in expected(step - 1):
                    if values[1] == "2":
                        change.drop(table_of(step), values)
                for values, payload in rows(step + 2, 8).items():
                    change.add(table_of(step), values, payload)
            txn.put(MARK, b"%d" % step)
        change.publish()
    store.close()
