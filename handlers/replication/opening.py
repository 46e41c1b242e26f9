"""Opens a policy, at the start of the process and after each error that ended the following.

A new policy begins its bootstrap. After a crash, or without the state file, the target's ``repl.last.id`` may
be ahead of the recorded position: replay records events up to that id in the write-id mapping and does not
apply them again. A lost or old state does not have the progress of an earlier process. Replay therefore
checks the target before it applies events up to the source's newest one at the opening (``OpeningMarks``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from handlers.replication.context import Context
from handlers.replication.effects import functions
from handlers.replication.effects.unreplicated import list_readable_views, record_existing
from handlers.replication.loading.bootstrap import begin_bootstrap, find_request, is_pending
from handlers.replication.loading.bootstrap_run import BootstrapOptions, run_bootstrap
from handlers.replication.loading.follower import LoadFollower
from handlers.replication.loading.scope import follow_scope
from handlers.replication.operations.promotion import require_not_promoted
from handlers.replication.operations.retirement import require_not_retired
from handlers.replication.position.progress import RecordedPosition
from handlers.replication.position.target_claim import TargetClaim
from handlers.replication.transactions.target_write_ids import OpeningMarks
from handlers.replication.transactions.transaction_replay import TransactionReplay
from state.errors import ConfigError
from state.event_log.positions import POSITION_KEY, Position
from state.store import Store


log = structlog.get_logger(__name__)

UNKNOWN_TXNS_KEY: Final = b"unknown-txns-up-to"
"""Highest source transaction that may be open on the target although the mapping does not contain it, because
the state file is lost.
"""

STATE_LOST: Final = "no state of this policy; replication continues from the target's own position"

KINDS_KEY: Final = b"unreplicated-kinds"
KINDS: Final = b"2"
"""Number of kinds of tables without replication that this version recognises (``replicability``). If the
stored number differs, opening lists the tables again.
"""

UNCERTAIN_KEY: Final = b"uncertain-up-to"
"""The source's newest event at an opening of the policy with a lost or old state: the target may have events
up to it."""


@dataclass(frozen=True, slots=True)
class Opening:
    """Opens one policy. Used by the projection's thread."""

    context: Context
    store: Store
    claim: TargetClaim
    recorded: RecordedPosition
    transactions: TransactionReplay
    loads: LoadFollower
    options: BootstrapOptions
    bootstraps_itself: bool
    beat: Callable[[], None]

    def needs_bootstrap(self) -> bool:
        """Whether ``open`` would bootstrap the policy, which may take hours."""
        return is_pending(self.store) or (self._may_bootstrap() and self.is_new())

    def awaits_request(self) -> bool:
        """Whether the policy is new, and ``open`` would refuse it: an operator has to request the
        bootstrap.
        """
        return not self._may_bootstrap() and self.is_new()

    def is_new(self) -> bool:
        """Whether neither the state nor the target has a position; raise the error of a call to the
        target.
        """
        return self.store.get(POSITION_KEY) is None and self.context.target_position.read() is None

    def _may_bootstrap(self) -> bool:
        return self.bootstraps_itself or find_request(self.context.policy.name, self.store) is not None

    def open(self) -> None:
        """Load the state, claim the target and read its position; ``recorded`` is then the position to
        continue from.

        Raises ConfigError if the policy was never bootstrapped, TargetDiverged or Fenced if the target
        differs from the state (``target_claim``), and the errors of ``bootstrap`` if the policy bootstraps
        itself.
        """
        context, recorded = self.context, self.recorded
        stored_position = self._load_state()
        is_new = stored_position is None and context.target_position.read() is None
        if is_new:
            stored_position = self._start_new_policy()
        target = self.claim.open(state_lost=stored_position is None)
        on_target = -1 if target.last_id is None else target.last_id
        position = self._start_without_state(on_target) if stored_position is None else stored_position
        recorded.resume(position, on_target=on_target)
        if is_pending(self.store):
            with context.copies.as_load():
                run_bootstrap(context, self.store, self.options, self.beat)
            on_target = position.event_id
            recorded.resume(position, on_target=on_target)
        self._survey_source(is_new=is_new)
        if target.outdated or stored_position is None or on_target > position.event_id:
            self._distrust_state()
        self._load_marks()
        follow_scope(context, self.store, self.loads)
        self._load_readable_views()

    def _load_state(self) -> Position | None:
        """Forget the memory of an earlier opening, and load the state; return its position if it has one."""
        context = self.context
        self.store.recover()
        require_not_retired(self.store, context.policy)
        require_not_promoted(self.store, context.policy)
        context.table_cache.clear()
        self.transactions.files.cancel_all()
        self.transactions.lookahead.clear()
        context.tables.load(self.store)
        self.loads.restart()
        stored = self.store.get(POSITION_KEY)
        return None if stored is None else Position.from_bytes(stored)

    def _start_new_policy(self) -> Position:
        """Begin the bootstrap; return the position from which the policy follows."""
        context = self.context
        request = find_request(context.policy.name, self.store)
        if request is None and not self.bootstraps_itself:
            raise ConfigError(
                "the policy was never bootstrapped",
                key=f"policies.{context.policy.name}",
                hint=f"Run 'tideline bootstrap {context.policy.name}' once, or set its 'bootstrap' to "
                "'auto'.",
            )
        bootstrap = begin_bootstrap(
            source=context.source,
            target=context.target,
            policy=context.policy,
            store=self.store,
            reuses_files=request is not None and request.reuse_files,
        )
        context.tables.loads.load(self.store)
        return Position(bootstrap.event_id)

    def _start_without_state(self, on_target: int) -> Position:
        """Continue from the target's own position. The write-id mapping does not contain the transactions
        that are open on the target.
        """
        newest = self.context.source.newest_txn_id()
        position = Position(on_target)
        log.warning(STATE_LOST, policy=self.context.policy.name, event_id=on_target)
        with self.store.transaction() as txn:
            txn.put(UNKNOWN_TXNS_KEY, str(newest).encode())
            txn.put(POSITION_KEY, position.to_bytes())
        return position

    def _survey_source(self, *, is_new: bool) -> None:
        """Create the functions that are older than the first event,
        and list the tables without replication, once.

        A policy of an older version, or without its state file, has neither. A version that recognises more
        of them lists the tables again. The bootstrap of a new policy has examined each table already.
        """
        position = self.recorded.current.event_id
        has_functions = self.store.get(functions.LOADED_KEY) is not None
        if has_functions and self.store.get(KINDS_KEY) == KINDS:
            return
        if not has_functions:
            functions.load(position, self.context)
        if not is_new:
            record_existing(position, self.context)
        with self.store.transaction() as txn:
            self.context.tables.unreplicated.flush(txn)
            txn.put(functions.LOADED_KEY, b"1")
            txn.put(KINDS_KEY, KINDS)

    def _load_readable_views(self) -> None:
        """Load views omitted because no policy replicated a database that they read."""
        readable = list_readable_views(self.context)
        for view in readable:
            self.context.tables.unreplicated.remove(view)
        if readable:
            self.loads.request(readable, "in-scope")

    def _distrust_state(self) -> None:
        """Record up to which event an earlier process may have replayed more than the state and the target's
        position show.

        If the target's position is ahead of the state, the state is old.
        """
        newest = self.context.source.current_event_id()
        with self.store.transaction() as txn:
            txn.put(UNCERTAIN_KEY, str(newest).encode())

    def _load_marks(self) -> None:
        """Pass to replay the ids up to which it must check the target, because the state may lack facts."""
        uncertain = self._load_number(UNCERTAIN_KEY)
        marks = OpeningMarks(
            self._load_number(UNKNOWN_TXNS_KEY), uncertain, max(uncertain, self.recorded.reached + 1)
        )
        self.transactions.resume(marks)
        self.context.tables.copied_ahead.distrust(uncertain)

    def _load_number(self, key: bytes) -> int:
        stored = self.store.get(key)
        return -1 if stored is None else int(stored)
