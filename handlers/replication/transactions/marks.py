"""How far the state of a policy may be behind the target when the policy is opened, because it was lost, is old, or was not recorded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class OpeningMarks:
    """Ids up to which replay checks the target instead of relying on the state; -1 if nothing must be checked."""

    unknown_txn_id: int = -1
    """Source transactions up to this one may be open on the target although the write-id mapping does not know them."""
    uncertain_event_id: int = -1
    """Events up to this one may be applied on the target although the state does not say so."""
    repeated_event_id: int = -1
    """Events up to this one may be commits that an earlier run has sent: the first one after the position, or more if the state was lost."""
