"""Transactions that repeat those of another metastore: opened, given write ids, committed and aborted by source ids.

The target's metastore maps them itself, per policy (a text that the caller chooses and has to keep). Two things are always
sent, because leaving them out succeeds silently with another effect (reference: hive-replication.md §0.4, §0b.7):
``txn_type=REPL_CREATED``, and one source transaction per call.
"""

from __future__ import annotations

import socket
from types import NoneType
from typing import TYPE_CHECKING, Final

from handlers.metastore.caller import Caller
from handlers.metastore.calls import Call
from handlers.metastore.generations import V3_1, V4_0, V4_2
from handlers.metastore.transactions import ABORT, ALLOCATE, COMMIT, OPEN
from handlers.structs import (
    AbortTxnRequest,
    AllocateTableWriteIdsRequest,
    CommitTxnRequest,
    MetaException,
    OpenTxnRequest,
    ReplayedTxnsForPolicyResult,
    ReplTblWriteIdStateRequest,
    TxnToWriteId,
    TxnType,
    WriteEventInfo,
)
from state.errors import TargetDiverged, Unsupported


if TYPE_CHECKING:
    from collections.abc import Sequence


_REPLAYED: Final = Call(
    "get_replayed_txns_for_policy",
    {"policyName": str},
    ReplayedTxnsForPolicyResult,
    (MetaException,),
    changes=False,
    since=V4_2,
)
_WRITE_ID_STATE: Final = Call(
    "repl_tbl_writeid_state", {"rqst": ReplTblWriteIdStateRequest}, NoneType, (), changes=True, since=V3_1
)


class ReplayCalls(Caller):
    """What replays transactions. All of it is idempotent at the server, except for what the methods say."""

    def open_replayed(self, policy: str, source_txn: int) -> int:
        """Return the target's transaction for ``source_txn``, opening it where there is none.

        After its commit or abort the mapping is gone, and this would open another one: the caller's position prevents it.
        Raises TargetDiverged where the answer is not one id, Unsupported before Hive 4.0.
        """
        self._require_replay()
        request = OpenTxnRequest(
            num_txns=1,
            user=self.options.user or self.options.identifier,
            hostname=socket.gethostname(),
            agentInfo=self.options.identifier,
            replPolicy=policy,
            replSrcTxnIds=[source_txn],
            txn_type=TxnType.REPL_CREATED,
        )
        opened = self._invoke(OPEN, request).txn_ids
        if len(opened) != 1:
            raise TargetDiverged(
                "The target opened another number of transactions.", source_txn=source_txn, opened=opened
            )
        return opened[0]

    def allocate_replayed(
        self, policy: str, db: str, table: str, source_txn: int, write_id: int, *, reallocate: bool = False
    ) -> int | None:
        """Give ``source_txn`` the write id ``write_id`` in a table; return the one that it has now.

        None: the target has no open transaction for it, which it answers with silence. Another id than asked for: the
        transaction had one already. ``reallocate`` then replaces it, and may only be used then, since on a plain
        repetition it forgets other transactions' ids of the table (reference: hive-replication.md §2.2).
        """
        self._require_replay()
        request = AllocateTableWriteIdsRequest(
            dbName=db,
            tableName=table,
            replPolicy=policy,
            srcTxnToWriteIdList=[TxnToWriteId(txnId=source_txn, writeId=write_id)],
            reallocate=True if reallocate else None,
        )
        allocated = self._invoke(ALLOCATE, request).txnToWriteIds
        return allocated[0].writeId if allocated else None

    def commit_replayed(self, policy: str, source_txn: int, writes: Sequence[WriteEventInfo]) -> None:
        """Commit; ``writes`` name the target's tables and the source's file entries, whose files are on the target already.

        Success proves nothing: an unknown transaction or policy succeeds as well. Raises ServerFault where a file or a
        table of ``writes`` is missing; the transaction is open then.
        """
        self._require_replay()
        request = CommitTxnRequest(
            txnid=source_txn,
            replPolicy=policy,
            writeEventInfos=list(writes) or None,
            txn_type=TxnType.REPL_CREATED,
        )
        self._invoke(COMMIT, request)

    def abort_replayed(self, policy: str, source_txn: int) -> None:
        """Abort; an unknown transaction succeeds as well."""
        self._require_replay()
        self._invoke(
            ABORT, AbortTxnRequest(txnid=source_txn, replPolicy=policy, txn_type=TxnType.REPL_CREATED)
        )

    def replayed_txns(self, policy: str) -> dict[int, int]:
        """Return the target's transactions that are open for ``policy``, by source transaction (since Hive 4.2)."""
        found = self._invoke(_REPLAYED, policy).replTxnMapEntry or {}
        return {int(source): int(target) for source, target in found.items()}

    def repl_table_write_ids(
        self, db: str, table: str, valid_write_ids: str, *, partition_names: Sequence[str] | None = None
    ) -> None:
        """Give a table that has no write ids yet the state of its source, in text form with the target's table name.

        Aborted ids stay invalid, and those that compaction would have to clean are queued for it. A table with write ids
        is left as it is.
        """
        request = ReplTblWriteIdStateRequest(
            validWriteIdlist=valid_write_ids,
            user=self.options.user or self.options.identifier,
            hostName=socket.gethostname(),
            dbName=db,
            tableName=table,
            partNames=None if partition_names is None else list(partition_names),
        )
        self._invoke(_WRITE_ID_STATE, request)

    def _require_replay(self) -> None:
        """Refuse before 4.0: older ones have no ``txn_type`` and read the ids in another way."""
        if self.generation < V4_0:
            raise Unsupported(
                "Replayed transactions need a target of Hive 4.",
                generation=str(self.generation),
                since=str(V4_0),
            )
