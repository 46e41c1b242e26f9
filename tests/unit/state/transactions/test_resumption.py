"""A quarantined table resumes only if nothing that it needs has passed, compared with a model that reads the
whole history."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import example, given
from hypothesis import strategies as st

from state.transactions.resumption import StoppedTable, TargetWriteIds, describe_stop, find_obstacle
from state.transactions.write_id_mapping import WriteIdMapping


TXNS = st.integers(1, 6)
ACTIONS = st.one_of(
    st.tuples(st.just("write"), TXNS),
    st.tuples(st.just("write-other"), TXNS),
    st.tuples(st.just("commit"), TXNS),
    st.tuples(st.just("abort"), TXNS),
    st.tuples(st.just("stop"), st.just(0)),
    st.tuples(st.just("rename"), st.just(0)),
    st.tuples(st.just("foreign-write"), st.just(0)),
    st.tuples(st.just("foreign-end"), TXNS),
)


@dataclass
class Replayed:
    """Replay of one table: the write-id mapping, the target, and a plain list of what happened."""

    mapping: WriteIdMapping = field(default_factory=WriteIdMapping)
    name: str = "t"
    mark: int = 0
    open: dict[int, int] = field(default_factory=dict)
    """Open write ids of the table on the target, by transaction."""
    ended: set[int] = field(default_factory=set)
    stopped: StoppedTable | None = None
    history: list[tuple[str, int]] = field(default_factory=list)
    events: int = 0

    def do(self, action: str, txn: int) -> None:
        """Do what is possible; a transaction that has ended does nothing any more."""
        self.events += 1
        if action == "stop":
            self._stop()
        elif action == "rename":
            self.mapping.rename_table(f"d.{self.name}", f"d.{self.name}x")
            self.name += "x"
            self.history.append((action, 0))
        elif action in {"foreign-write", "foreign-end"}:
            self._interfere(action, txn)
        elif txn not in self.ended:
            self._do_transaction(action, txn)

    def _interfere(self, action: str, txn: int) -> None:
        """Let another client change the target; before the stop, replay would notice it at its next
        allocation or commit."""
        if self.stopped is None or (action == "foreign-end" and txn not in self.open):
            return
        if action == "foreign-write":
            self.mark += 1
        else:
            del self.open[txn]
        self.history.append((action, txn))

    def _do_transaction(self, action: str, txn: int) -> None:
        if action == "write-other":
            self.mapping.allocate(txn, f"d.other{self.events}", 1, self.events)
        elif action == "write":
            if self.stopped is not None or txn in self.open or txn in self._writers():
                return
            self.mark += 1
            self.mapping.allocate(txn, f"d.{self.name}", self.mark, self.events)
            self.open[txn] = self.mark
            self.history.append((action, txn))
        elif action in {"commit", "abort"}:
            self.mapping.commit(txn) if action == "commit" else self.mapping.abort(txn)
            self.open.pop(txn, None)
            self.ended.add(txn)
            self.history.append(("end", txn))

    def _writers(self) -> set[int]:
        return {txn for action, txn in self.history if action == "write"}

    def _stop(self) -> None:
        if self.stopped is None:
            self.stopped = describe_stop(self.name, self.mapping, f"d.{self.name}", 0)
            self.history.append(("stop", 0))

    def can_resume(self) -> bool:
        """Decide naively, from the history: nothing but ends of transactions that did not write into the
        table."""
        at = self.history.index(("stop", 0))
        ends = {txn for action, txn in self.history[:at] if action == "end"}
        writers = {txn for action, txn in self.history[:at] if action == "write"} - ends
        for action, txn in self.history[at:]:
            if action in {"rename", "foreign-write", "foreign-end"} or (action == "end" and txn in writers):
                return False
        return True


@given(st.lists(ACTIONS, max_size=25))
@example([("write", 1), ("stop", 0), ("commit", 1)])
@example([("write", 1), ("stop", 0), ("write-other", 2), ("commit", 2)])
@example([("write", 1), ("commit", 1), ("stop", 0)])
@example([("write", 1), ("stop", 0), ("foreign-end", 1)])
def test_a_table_resumes_only_if_no_writer_ended_and_nobody_changed_it(
    actions: list[tuple[str, int]],
) -> None:
    replayed = Replayed()
    for action, txn in actions:
        replayed.do(action, txn)
    replayed.do("stop", 0)
    obstacle = find_obstacle(
        replayed.stopped,
        table=replayed.name,
        held=replayed.mapping.held_write_ids(f"d.{replayed.name}"),
        target=TargetWriteIds(replayed.mark, frozenset(replayed.open.values())),
    )
    forgotten = replayed.mark == 1 and replayed.stopped is not None and not replayed.stopped.high_water_mark
    if (
        not forgotten
    ):  # an aborted first write id is forgotten: then the table is loaded, which is always correct
        assert (obstacle is None) == replayed.can_resume(), (obstacle, replayed.history)


def test_an_entry_without_write_ids_and_a_missing_table_must_be_loaded() -> None:
    assert find_obstacle(None, table="t", held=frozenset(), target=TargetWriteIds()) is not None
    stopped = StoppedTable("t", 0, frozenset())
    assert find_obstacle(stopped, table="t", held=frozenset(), target=None) is not None


def test_a_loaded_table_that_was_not_written_since_stops_at_the_write_id_of_its_load() -> None:
    stopped = describe_stop("t", WriteIdMapping(), "d.t", 7)
    assert find_obstacle(stopped, table="t", held=frozenset(), target=TargetWriteIds(7)) is None


def test_a_reason_names_a_few_of_many_transactions() -> None:
    stopped = StoppedTable("t", 9, frozenset((i, 100 + i) for i in range(1, 10)))
    reason = find_obstacle(stopped, table="t", held=frozenset(), target=TargetWriteIds(9)) or ""
    assert "101, 102, 103, 104, 105 and 4 more" in reason
