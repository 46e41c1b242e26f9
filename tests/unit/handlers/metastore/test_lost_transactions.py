"""Hive may delete a replayed transaction while it opens it, and keep it in its mapping of transactions; then
it is replaced."""

from __future__ import annotations

from typing import Any

import pytest

from handlers.metastore.calls import V4_0, V4_2
from handlers.metastore.client import Metastore
from handlers.metastore.replayed_transactions import SUBSTITUTES_MAX
from handlers.structs.transactions import (
    AllocateTableWriteIdsResponse,
    GetOpenTxnsInfoResponse,
    OpenTxnsResponse,
    ReplayedTxnsForPolicyResult,
    TxnInfo,
    TxnState,
    TxnToWriteId,
)
from state.errors import ServerFault, TxnNotOpen


POLICY = "shop_r.*"


class Target(Metastore):
    """A target with Hive's own mapping; the next ``losing`` transactions are lost while they are opened."""

    def __init__(self, losing: int) -> None:
        super().__init__("thrift://nowhere:1")
        self.losing = losing
        self.mapping: dict[tuple[str, int], int] = {}
        self.open: set[int] = set()
        self.ended: list[tuple[str, int]] = []
        self.release = V4_2
        self.refusing = False

    @property
    def hive_version(self) -> Any:
        return self.release

    def _invoke(self, call: Any, *arguments: Any) -> Any:
        return getattr(self, f"_{call.name}")(*arguments)

    def _open_txns(self, request: Any) -> OpenTxnsResponse:
        key = (request.replPolicy, request.replSrcTxnIds[0])
        if key not in self.mapping:
            self.mapping[key] = 100 + len(self.mapping)
            self.open.add(self.mapping[key])
            if self.losing > 0:
                self.losing -= 1
                self.open.remove(self.mapping[key])
        return OpenTxnsResponse(txn_ids=[self.mapping[key]])

    def _allocate_table_write_ids(self, request: Any) -> AllocateTableWriteIdsResponse:
        if self.refusing:
            raise ServerFault("other")
        (pair,) = request.srcTxnToWriteIdList
        target_txn = self.mapping.get((request.replPolicy, pair.txnId))
        if target_txn is None:
            return AllocateTableWriteIdsResponse(txnToWriteIds=[])
        if target_txn not in self.open:
            raise ServerFault("not all input txns in open state")
        return AllocateTableWriteIdsResponse(
            txnToWriteIds=[TxnToWriteId(txnId=target_txn, writeId=pair.writeId)]
        )

    def _end(self, request: Any) -> None:
        target_txn = self.mapping.get((request.replPolicy, request.txnid))
        if target_txn is None:
            return
        if target_txn not in self.open:
            raise TxnNotOpen("no such transaction")
        del self.mapping[request.replPolicy, request.txnid]
        self.open.remove(target_txn)
        self.ended.append((request.replPolicy, target_txn))

    _commit_txn = _end
    _abort_txn = _end

    def _get_replayed_txns_for_policy(self, policy: str) -> ReplayedTxnsForPolicyResult:
        entries = {str(txn): str(target) for (key, txn), target in self.mapping.items() if key == policy}
        return ReplayedTxnsForPolicyResult(replTxnMapEntry=entries)

    def _get_open_txns_info(self) -> GetOpenTxnsInfoResponse:
        listed = [
            TxnInfo(id=txn, state=TxnState.OPEN, user="tideline", hostname="vm") for txn in sorted(self.open)
        ]
        return GetOpenTxnsInfoResponse(txn_high_water_mark=999, open_txns=listed)


@pytest.mark.parametrize("lost", [0, 1, 2])
@pytest.mark.parametrize(
    "end", [lambda t: t.commit_replayed(POLICY, 7, ()), lambda t: t.abort_replayed(POLICY, 7)]
)
def test_a_transaction_that_was_lost_while_it_was_opened_gets_its_write_ids_and_ends(
    end: Any, lost: int
) -> None:
    target = Target(losing=lost)
    target.open_replayed(POLICY, 7)
    for _ in range(lost + 1):
        try:
            answers = [target.allocate_replayed(POLICY, "shop_r", name, 7, 3) for name in ("a", "b")]
        except ServerFault:
            continue  # the substitute was lost too; replay repeats the event
    assert answers == [3, 3]
    assert len(target.replayed_txns(POLICY)) == 1
    end(target)
    assert [key for key, _ in target.ended] == [POLICY if lost == 0 else f"{POLICY}~{lost}"]
    assert target.replayed_txns(POLICY) == {}, "a lost transaction is not open"
    end(target)
    assert len(target.ended) == 1, "ending it again changes nothing"


def test_a_refusal_for_another_reason_is_raised() -> None:
    target = Target(losing=0)
    target.open_replayed(POLICY, 7)
    target.refusing = True
    with pytest.raises(ServerFault, match="other"):
        target.allocate_replayed(POLICY, "shop_r", "a", 7, 3)
    assert [key for key, _ in target.mapping] == [POLICY]


def test_a_transaction_that_is_lost_again_and_again_fails() -> None:
    target = Target(losing=100)
    target.open_replayed(POLICY, 7)
    for _ in range(SUBSTITUTES_MAX + 3):
        with pytest.raises(ServerFault):
            target.allocate_replayed(POLICY, "shop_r", "a", 7, 3)
    assert len(target.mapping) == SUBSTITUTES_MAX + 1


def test_before_hive_4_2_the_mapping_cannot_be_read_and_the_refusal_is_raised() -> None:
    target = Target(losing=1)
    target.release = V4_0
    target.open_replayed(POLICY, 7)
    with pytest.raises(ServerFault):
        target.allocate_replayed(POLICY, "shop_r", "a", 7, 3)
    assert len(target.mapping) == 1
