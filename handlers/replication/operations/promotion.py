"""Failover: the replica becomes a separate database, which writers may use.

The steps, each repeatable after a crash. Only the last one needs the source:

1. Refuse if tables are incomplete, unless forced: quarantined ones, those that wait for a load, and those
   that left the policy.
2. Record the point in the policy's state. From now on, the daemon does not follow the policy any more.
3. Remove the files under open write ids (``transactions.open_writes``), then abort the replayed transactions.
4. Remove all parameters of replication from the target database in one call, and name the point there
   (``tideline.promoted``). That fences every other instance, because its epoch is gone.
5. Remove the policy from ``repl.source.for`` of the source, if it answers. Otherwise, a later repetition does
   this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import orjson

from handlers.failpoints import failpoint
from handlers.replication.effects.databases import SOURCE_FOR, is_replication_parameter, unmark_source
from handlers.replication.loading.bootstrap import PROMOTED
from handlers.replication.target.target_position import INCOMPATIBLE
from handlers.replication.transactions.open_writes import discard_open_writes, read_write_ids
from state.errors import ConfigError, IncompleteReplica, NotFound, StateCorrupt, Transient


if TYPE_CHECKING:
    from collections.abc import Iterator

    from handlers.replication.context import Context
    from handlers.replication.policy.policy import Policy
    from handlers.replication.transactions.open_writes import WriteIds
    from handlers.structs.objects import Database
    from state.store import Reader, Store


PROMOTED_KEY: Final = b"promoted"


@dataclass(frozen=True, slots=True)
class Point:
    """The state of the source that a replica shows."""

    event_id: int
    """The last applied event."""
    time_s: int | None = None
    """The time of the event at the source (Unix time), if known."""


@dataclass(frozen=True, slots=True)
class IncompleteTable:
    """A table without all rows of the point."""

    table: str
    reason: str


@dataclass(frozen=True, slots=True)
class Promotion:
    """The plan of a promotion, or its result. Field names are those of the stored JSON."""

    policy: str
    database: str
    """The promoted database."""
    event_id: int
    time_s: int | None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    """The highest write id of each table that has any."""
    open_writes: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """Write ids of transactions that are not part of the replica; they show no rows."""
    aborted: int = 0
    """Replayed transactions to abort."""
    incomplete: Sequence[IncompleteTable] = ()
    missing: Sequence[IncompleteTable] = ()
    """Tables of the source that are not in the database, because they have no possible replica."""
    removed: Sequence[str] = ()
    """The parameters that the promotion removes from the target database."""
    unmarked: bool | None = None
    """Whether the source database named the policy; None if the source did not answer."""

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return orjson.dumps(asdict(self))

    @staticmethod
    def from_bytes(value: bytes) -> Promotion:
        """Read the stored form; raise StateCorrupt."""
        try:
            found: dict[str, Any] = orjson.loads(value)
            for name in ("incomplete", "missing"):
                found[name] = [IncompleteTable(**each) for each in found[name]]
            return Promotion(**found)
        except (TypeError, KeyError, orjson.JSONDecodeError) as error:
            raise StateCorrupt("the recorded promotion cannot be read", reason=str(error)) from error


def find_promotion(store: Reader) -> Promotion | None:
    """Return a begun or finished promotion; None if there was none."""
    stored = store.get(PROMOTED_KEY)
    return None if stored is None else Promotion.from_bytes(stored)


def read_promotion(parameters: Mapping[str, str], policy: Policy) -> Promotion | None:
    """Return the promotion of the policy that the target database names; None if there is none."""
    name, _, event_id = parameters.get(PROMOTED, "").rpartition(":")
    if name != policy.name or not event_id.isdecimal():
        return None
    return Promotion(name, policy.target_db, int(event_id), time_s=None, unmarked=False)


def require_not_promoted(store: Reader, policy: Policy) -> None:
    """Raise ConfigError after a promotion of the policy."""
    if find_promotion(store) is not None:
        raise promoted_policy(policy.name)


def promoted_policy(name: str) -> ConfigError:
    """Return the error for a policy that was promoted."""
    return ConfigError(
        "the policy was promoted: its target database belongs to its writers now",
        key=f"policies.{name}",
        hint="Remove the policy from the configuration. For the way back, see 'Failover' in "
        "docs/guides/failover.md.",
    )


def plan_promotion(context: Context, store: Reader, point: Point) -> Promotion:
    """Return the plan of ``promote``; changes nothing."""
    done = find_promotion(store)
    return done if done is not None else _describe(context, point, read_write_ids(context))


def promote(context: Context, store: Store, point: Point, *, forced: bool = False) -> Promotion:
    """Make the target database independent; no copy and no load may run.
    A repetition completes an interrupted promotion.

    Raises IncompleteReplica if tables are incomplete and this is not ``forced``, Fenced if another instance
    holds the database.
    """
    planned = find_promotion(store)
    write_ids = read_write_ids(context)
    if planned is None:
        planned = _describe(context, point, write_ids)
        if planned.incomplete and not forced:  # step 1
            raise _refusal(planned)
        _store(store, planned)  # step 2
    failpoint("promote.after-record")
    _end_transactions(context, write_ids)  # step 3
    failpoint("promote.after-aborts")
    context.target_position.release(lambda database: _hand_over(database, planned))  # step 4
    failpoint("promote.after-release")
    done = replace(planned, unmarked=_unmark(context))  # step 5
    _store(store, done)
    return done


def _describe(context: Context, point: Point, write_ids: Sequence[WriteIds]) -> Promotion:
    policy = context.policy
    parameters = context.target.get_database(policy.target_db).parameters or {}
    return Promotion(
        policy=policy.name,
        database=policy.target_db,
        event_id=point.event_id,
        time_s=point.time_s,
        write_ids={each.table: each.highest for each in write_ids},
        open_writes={each.table: each.valid.open for each in write_ids if each.has_open},
        aborted=len(find_open_transactions(context)),
        incomplete=tuple(_incomplete_tables(parameters, context)),
        missing=tuple(
            IncompleteTable(each.table, each.reason)
            for each in context.tables.unreplicated.entries()
            if not each.on_target
        ),
        removed=tuple(sorted(filter(_is_removed, parameters))),
    )


def _incomplete_tables(parameters: Mapping[str, str], context: Context) -> Iterator[IncompleteTable]:
    if parameters.get(INCOMPATIBLE, "").lower() == "true":  # Hive's mark, which concerns all tables
        yield IncompleteTable("*", "a replayed transaction was ended outside of replication")
    for entry in context.tables.quarantine.entries():
        yield IncompleteTable(entry.table, f"quarantined at event {entry.event_id}: {entry.reason}")
    for load in context.tables.loads.waiting():
        state = "catches up after its load" if load.is_catching_up else "waits for its load"
        yield IncompleteTable(load.table, state)
    for left in context.tables.left.entries():
        yield IncompleteTable(left.table, "left the policy, and has not been followed since")
    for each in context.tables.unreplicated.entries():
        if each.on_target:
            yield IncompleteTable(each.table, f"not followed since event {each.event_id}: {each.reason}")


def _refusal(planned: Promotion) -> IncompleteReplica:
    tables = [f"{each.table}: {each.reason}" for each in planned.incomplete]
    return IncompleteReplica(
        "tables of the replica lack rows of its point",
        database=planned.database,
        event_id=planned.event_id,
        tables=tables[:20],
        count=len(tables),
    )


def _store(store: Store, promotion: Promotion) -> None:
    with store.transaction() as txn:
        txn.put(PROMOTED_KEY, promotion.to_bytes())


def find_open_transactions(context: Context) -> set[int]:
    """Return the source ids of the replayed transactions that are open."""
    txn_ids, target = set(context.tables.write_ids.open_txns()), context.target
    if target.supports("get_replayed_txns_for_policy"):
        txn_ids |= target.replayed_txns(context.policy.txn_map_key).keys()
    return txn_ids


def _end_transactions(context: Context, write_ids: Sequence[WriteIds]) -> None:
    for each in write_ids:
        if each.has_open:
            discard_open_writes(each, context)
    failpoint("promote.after-discard")
    for txn_id in sorted(find_open_transactions(context)):
        context.target.abort_replayed(context.policy.txn_map_key, txn_id)


def _is_removed(key: str) -> bool:
    """Whether a parameter marks the database as a replica; the parameters of policies that replicate the
    database to other targets stay.
    """
    return is_replication_parameter(key) and key != SOURCE_FOR


def _hand_over(database: Database, promotion: Promotion) -> Database:
    others = {key: value for key, value in (database.parameters or {}).items() if not _is_removed(key)}
    database.parameters = {**others, PROMOTED: f"{promotion.policy}:{promotion.event_id}"}
    return database


def _unmark(context: Context) -> bool | None:
    try:
        return unmark_source(context.source, context.policy)
    except NotFound:
        return False
    except Transient:
        return None
