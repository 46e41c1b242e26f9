"""Fencing: one instance at a time writes to a target database, the one that claimed it last.

Every process raises the database's epoch once, when it first opens the policy. The epoch is in the policy's
state file and in the parameter ``tideline.epoch`` of the target database. A process that finds another epoch
there has been replaced while it was stopped or disconnected, and must no longer write: its position is stale,
and repeating the other instance's work would damage the target's transaction map.

An epoch is ``NUMBER-RANDOM``. The number grows with every claim, which distinguishes a target restored from a
backup from one that another instance holds. The random part separates two instances that claimed at the same
moment.

These are the rules, without input or output. ``target_position`` reads and compares, ``target_claim`` claims.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

import orjson

from state.errors import ConfigError, Fenced, Interrupted, StateCorrupt, TargetDiverged


EPOCH: Final = "tideline.epoch"
INSTANCE: Final = "tideline.instance"
SOURCE: Final = "tideline.source"
"""Parameters of the target database: the epoch, a description of the process that claimed it, and whose
events ``repl.last.id`` counts."""
RETIRED: Final = "tideline.retired"
"""Parameter of the target database with the name of the policy that was retired: it never claims it again."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The state file's record of the claims of this policy. The field names are those of the stored JSON."""

    epoch: str
    """The newest epoch of this state."""
    replaced: str | None = None
    """The epoch that it replaced on the target. If the process ended before it wrote the target, that one is
    still there."""

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        return orjson.dumps(asdict(self))

    @staticmethod
    def from_bytes(value: bytes) -> Claim:
        """Read the stored form; raise StateCorrupt if that is not possible."""
        try:
            return Claim(**orjson.loads(value))
        except (TypeError, orjson.JSONDecodeError) as error:
            raise StateCorrupt("the epoch of the target cannot be read", reason=str(error)) from error


def epoch_number(epoch: str | None) -> int:
    """Return the number of an epoch; 0 for a missing one or a text of another form."""
    number = (epoch or "").partition("-")[0]
    return int(number) if number.isascii() and number.isdigit() else 0


def next_epoch(*known: str | None) -> str:
    """Return an epoch above all ``known`` ones."""
    return f"{max(map(epoch_number, known), default=0) + 1}-{secrets.token_hex(4)}"


def describe_instance() -> str:
    """Describe this process for the operator who finds two of them:
    host, process id and time of the claim.
    """
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return f"host {socket.gethostname()}, pid {os.getpid()}, since {since}"


def describe_source(name: str, database: str, uuid: str | None) -> str:
    """Return the identity of the source database;
    ``uuid`` is the metastore's own, ``name`` the configured name.
    """
    return f"{database} of {f'metastore {uuid}' if uuid else f'source {name}'}"


def require_held(parameters: Mapping[str, str], claim: Claim, database: str) -> None:
    """Raise Fenced unless the target database carries the epoch of ``claim``, and Interrupted if it carries
    the replaced one.

    The replaced instance has then read the parameters before the claim and written them after it. Of the two
    instances, only the newer one knows the other's epoch, so only the newer one claims the database again.
    """
    present, epoch = parameters.get(EPOCH), claim.epoch
    if present == epoch:
        return
    if present is not None and present == claim.replaced:
        raise Interrupted(
            "the replaced instance wrote the target database's parameters over the claim of this one",
            database=database,
            holder=parameters.get(INSTANCE),
            epoch=present,
            own_epoch=epoch,
            hint="This instance claims the database again, and the other one stops.",
        )
    message = (
        "the epoch of this instance is missing from the target database: the database was restored or "
        "recreated"
        if present is None
        else "another instance took over the target database"
    )
    raise Fenced(message, database=database, holder=parameters.get(INSTANCE), epoch=present, own_epoch=epoch)


def was_held_by_others(
    claim: Claim | None, parameters: Mapping[str, str], *, last_id: int | None, database: str
) -> bool:
    """Return whether another instance held the target since ``claim`` was stored,
    so that the state file is out of date.

    ``last_id`` is the ``repl.last.id`` that this state wrote last. Raises TargetDiverged if the target has an
    older ``repl.last.id`` or an older epoch, because it was then restored from a backup.
    """
    if claim is None:
        return False
    on_database = parameters.get(EPOCH)
    ours = on_database in {claim.epoch, claim.replaced}
    on_target = parameters.get("repl.last.id", "")
    behind = last_id is not None and (not on_target.isdecimal() or int(on_target) < last_id)
    if behind:
        raise restored_target(database, on_target or None, last_id)
    if not ours and epoch_number(on_database) < epoch_number(claim.epoch):
        raise restored_target(database, on_database, claim.epoch, key=EPOCH)
    return not ours


def restored_target(
    database: str, present: str | int | None, expected: str | int | None, *, key: str = "repl.last.id"
) -> TargetDiverged:
    """Return the error for a target whose parameter ``key`` is older than the value that this state wrote
    into it.
    """
    return TargetDiverged(
        "the target database is older than the replica's last write: it was restored from a backup, or "
        "changed manually",
        database=database,
        key=key,
        value=present,
        expected=expected,
        hint="If the whole target was restored, move the policy's state file away: replication then "
        "continues from the "
        "target's own position. Otherwise set the parameter to the expected value and run 'tideline verify'.",
    )


def retired_policy(name: str) -> ConfigError:
    """Return the error for a policy whose replication an operator has ended."""
    return ConfigError(
        "the policy was retired",
        key=f"policies.{name}",
        hint="Remove it from the configuration, or exclude its database from the pattern. To replicate "
        "again, move its state file away and bootstrap it into a new target database.",
    )


def other_source(database: str, present: str | None, expected: str) -> TargetDiverged:
    """Return the error for a target whose ``repl.last.id`` counts the events of another source."""
    return TargetDiverged(
        "the target database is a replica of another source",
        database=database,
        key=SOURCE,
        value=present,
        expected=expected,
        hint="Correct the policy's source, or choose another target database. If the source's metastore was "
        "moved, set the parameter to the expected value.",
    )
