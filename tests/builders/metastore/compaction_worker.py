"""A client that takes compactions on a metastore, as a worker of Hive does, and lets them fail."""

from __future__ import annotations

from types import NoneType
from typing import Annotated

from dev.fixtures.writing_client import WritingMetastore
from handlers.metastore.calls import DECLARED, V4_0, Call
from handlers.structs.exceptions import MetaException
from handlers.structs.struct import Struct, i32, i64, resolve
from handlers.structs.transactions import CompactionType


class CompactionInfoStruct(Struct):
    """A compaction as a worker takes it."""

    id: Annotated[i64, 1]
    dbname: Annotated[str, 2]
    tablename: Annotated[str, 3]
    partitionname: Annotated[str | None, 4] = None
    type: Annotated[i32, 5, CompactionType]
    state: Annotated[str | None, 9] = None
    workerId: Annotated[str | None, 10] = None  # noqa: N815 - Hive's name
    start: Annotated[i64 | None, 11] = None
    highestWriteId: Annotated[i64 | None, 12] = None  # noqa: N815
    errorMessage: Annotated[str | None, 13] = None  # noqa: N815


class OptionalCompactionInfoStruct(Struct):
    """A compaction, or none."""

    ci: Annotated[CompactionInfoStruct | None, 1] = None


resolve()
_TAKE = Call(
    "find_next_compact",
    {"workerId": str},
    OptionalCompactionInfoStruct,
    (MetaException,),
    changes=True,
    since=V4_0,
)
_FAIL = Call(
    "mark_failed", {"cr": CompactionInfoStruct}, NoneType, (MetaException,), changes=True, since=V4_0
)


for _call in (_TAKE, _FAIL):
    del DECLARED[
        _call.name
    ]  # the product does not declare them, and another test compares what it declares with Hive


class CompactionWorker(WritingMetastore):
    """A client that also takes compactions, as a worker of Hive does."""

    def fail_next(self, message: str) -> tuple[str, str]:
        """Take the next compaction and report that it failed; return its database and table."""
        taken = self._invoke(_TAKE, "worker").ci
        assert taken is not None
        taken.errorMessage = message
        self._invoke(_FAIL, taken)
        return taken.dbname, taken.tablename
